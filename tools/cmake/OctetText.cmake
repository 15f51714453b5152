# PCRE2 (at least 10.40, for binary properties such as \p{Alphabetic}) and
# utf8proc, as static libraries: an executable needs nothing but libc.
function(octet_find_static target header library package least)
  if(TARGET ${target})
    return()
  endif()
  string(MAKE_C_IDENTIFIER OCTET_${target} prefix)
  find_path(${prefix}_INCLUDE ${header})
  find_library(${prefix}_LIBRARY NAMES lib${library}.a ${library})
  if(NOT ${prefix}_INCLUDE OR NOT ${prefix}_LIBRARY)
    message(FATAL_ERROR "${header} and lib${library} are missing; on Debian they are in ${package}")
  endif()
  file(STRINGS ${${prefix}_INCLUDE}/${header} lines
       REGEX "#define (PCRE2|UTF8PROC_VERSION)_(MAJOR|MINOR) ")
  string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*" "\\1.\\2" version "${lines}")
  if(version VERSION_LESS least)
    message(FATAL_ERROR "${${prefix}_INCLUDE}/${header} is version ${version}; at least ${least} is needed")
  endif()
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION ${${prefix}_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${${prefix}_INCLUDE})
  if(${prefix}_LIBRARY MATCHES "\\.a$")
    set_target_properties(${target} PROPERTIES
      INTERFACE_COMPILE_DEFINITIONS "PCRE2_STATIC;UTF8PROC_STATIC")
  endif()
endfunction()

octet_find_static(octet_pcre2 pcre2.h pcre2-8 libpcre2-dev 10.40)
octet_find_static(octet_utf8proc utf8proc.h utf8proc libutf8proc-dev 2.5)
