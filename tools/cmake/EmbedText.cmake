# Writes OUT, a C++ initializer of pairs of name and text, of the files NAMES
# (separated by '|') below ROOT. A name in an #include is relative to ROOT;
# PREFIX before it is dropped, so that a file has one name.
#
#   cmake -DROOT=… -DNAMES=… -DPREFIX=… -DOUT=… -P EmbedText.cmake
string(REPLACE "|" ";" names "${NAMES}")
set(all "")
foreach(name IN LISTS names)
  file(READ "${ROOT}/${name}" text)
  string(REPLACE "#include \"${PREFIX}" "#include \"" text "${text}")
  string(APPEND all "{\"${name}\", R\"octet!(${text})octet!\"},\n")
endforeach()
file(WRITE "${OUT}" "${all}")
