//===- Info.cpp - octet info ----------------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Info.h"
#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Checkpoint/Gguf.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <unordered_map>

using namespace octet;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

//===----------------------------------------------------------------------===//
// Folding names
//===----------------------------------------------------------------------===//

/// The numbers at one place of a pattern, ascending.
using IndexSet = std::vector<uint32_t>;

/// One line of the table: all names of `pattern` with each combination of
/// `indices`.
struct FoldedLine {
  std::string pattern; ///< the name, each number replaced by a '\0'
  std::vector<IndexSet> indices;
  const TensorInfo *example; ///< dtype and shape, which all have
  int64_t count;             ///< tensors
};

/// The numbers of the names of one pattern: `rank` of them a name.
struct Group {
  const TensorInfo *example;
  std::string pattern;
  size_t rank;
  std::vector<uint32_t> tuples;
};

/// Numbers of one name that are folded, the first ones: a name of a hostile
/// file may have a million, and folding recurses.
constexpr size_t kMaxFolded = 8;

/// A component that is a number is replaced by '\0', which no tensor's name
/// holds; others stay, `007` too, since a range could not print it.
void splitName(std::string_view name, std::string &pattern,
               std::vector<uint32_t> &numbers) {
  while (true) {
    size_t dot = name.find('.');
    std::string_view part = name.substr(0, dot);
    uint32_t number = 0;
    auto [end, error] =
        std::from_chars(part.data(), part.data() + part.size(), number);
    bool isNumber = numbers.size() < kMaxFolded && error == std::errc() &&
                    end == part.data() + part.size() &&
                    (part == "0" || part[0] != '0');
    if (isNumber) {
      numbers.push_back(number);
      pattern += '\0';
    } else {
      pattern += part;
    }
    if (dot == name.npos)
      return;
    pattern += '.';
    name.remove_prefix(dot + 1);
  }
}

/// A set of tuples as the fewest lines that this way finds: values of the first
/// number that have the same rest share a line. Exact for any set.
/// \param tuples  row-major, sorted, `rank` numbers each.
using Product = std::vector<IndexSet>;
std::vector<Product> foldTuples(std::span<const uint32_t> tuples, size_t stride,
                                size_t place) {
  if (place == stride)
    return {{}};
  // The rest of each first value, in order; equal rests meet in the map.
  std::map<std::vector<Product>, IndexSet> byRest;
  for (size_t begin = 0; begin < tuples.size();) {
    uint32_t value = tuples[begin + place];
    size_t end = begin;
    while (end < tuples.size() && tuples[end + place] == value)
      end += stride;
    byRest[foldTuples(tuples.subspan(begin, end - begin), stride, place + 1)]
        .push_back(value);
    begin = end;
  }
  std::vector<Product> products;
  for (const auto &[rests, values] : byRest)
    for (const Product &rest : rests) {
      Product product = {values};
      product.insert(product.end(), rest.begin(), rest.end());
      products.push_back(std::move(product));
    }
  std::sort(products.begin(), products.end());
  return products;
}

void sortTuples(std::vector<uint32_t> &tuples, size_t rank) {
  std::vector<std::span<const uint32_t>> rows;
  for (size_t i = 0; i < tuples.size(); i += rank)
    rows.push_back(std::span(tuples).subspan(i, rank));
  std::sort(rows.begin(), rows.end(), [](auto a, auto b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  });
  std::vector<uint32_t> sorted;
  sorted.reserve(tuples.size());
  for (std::span<const uint32_t> row : rows)
    sorted.insert(sorted.end(), row.begin(), row.end());
  tuples = std::move(sorted);
}

std::vector<FoldedLine> foldTensors(std::span<const TensorInfo> tensors) {
  std::unordered_map<std::string, size_t> groupOf;
  std::vector<Group> groups;
  std::string pattern, key;
  std::vector<uint32_t> numbers;
  for (const TensorInfo &tensor : tensors) {
    pattern.clear();
    numbers.clear();
    splitName(tensor.name, pattern, numbers);
    key = pattern;
    key += '\n';
    key += tensor.storedName();
    key += '\n';
    for (int64_t side : tensor.shape)
      key.append(reinterpret_cast<const char *>(&side), sizeof side);
    auto [at, isNew] = groupOf.try_emplace(key, groups.size());
    if (isNew)
      groups.push_back({&tensor, pattern, numbers.size(), {}});
    std::vector<uint32_t> &tuples = groups[at->second].tuples;
    tuples.insert(tuples.end(), numbers.begin(), numbers.end());
  }

  std::vector<FoldedLine> lines;
  for (Group &group : groups) {
    if (group.rank == 0) {
      lines.push_back({group.pattern, {}, group.example, 1});
      continue;
    }
    sortTuples(group.tuples, group.rank);
    for (Product &product : foldTuples(group.tuples, group.rank, 0)) {
      int64_t count = 1;
      for (const IndexSet &set : product)
        count *= int64_t(set.size());
      lines.push_back(
          {group.pattern, std::move(product), group.example, count});
    }
  }
  std::sort(
      lines.begin(), lines.end(), [](const FoldedLine &a, const FoldedLine &b) {
        return std::tie(a.pattern, a.indices) < std::tie(b.pattern, b.indices);
      });
  return lines;
}

/// "0", "{0-77}" or "{0,2-4}".
std::string printIndexSet(const IndexSet &set) {
  if (set.size() == 1)
    return std::to_string(set[0]);
  std::string text = "{";
  for (size_t i = 0; i < set.size();) {
    size_t last = i;
    while (last + 1 < set.size() && set[last + 1] == set[last] + 1)
      ++last;
    if (i)
      text += ',';
    text += std::to_string(set[i]);
    if (last > i)
      text += (last == i + 1 ? ',' : '-') + std::to_string(set[last]);
    i = last + 1;
  }
  return text + "}";
}

/// The pattern with its ranges; `raw` for JSON, which escapes by itself.
std::string printName(const FoldedLine &line, bool raw) {
  std::string text;
  size_t place = 0;
  std::string_view rest = line.pattern;
  while (true) {
    size_t mark = rest.find('\0');
    std::string_view literal = rest.substr(0, mark);
    text += raw ? std::string(literal) : escapeName(literal);
    if (mark == rest.npos)
      return text;
    text += printIndexSet(line.indices[place++]);
    rest.remove_prefix(mark + 1);
  }
}

//===----------------------------------------------------------------------===//
// What config.json says
//===----------------------------------------------------------------------===//

/// The string at `object[key]`, or nothing.
const std::string *findString(const json &object, const char *key) {
  if (!object.is_object())
    return nullptr;
  auto at = object.find(key);
  return at == object.end() ? nullptr : at->get_ptr<const std::string *>();
}

const json *findObject(const json &object, const char *key) {
  if (!object.is_object())
    return nullptr;
  auto at = object.find(key);
  return at != object.end() && at->is_object() ? &*at : nullptr;
}

std::string findArchitecture(const json &config) {
  if (config.is_object())
    if (auto at = config.find("architectures");
        at != config.end() && at->is_array() && !at->empty())
      if (const auto *name = (*at)[0].get_ptr<const std::string *>())
        return *name;
  return "";
}

/// The word that names the method, found in the order of C1; empty if none is
/// declared. A word only: what it means is the business of the registry (C2).
std::string findMethod(const Checkpoint &checkpoint) {
  const json *text = findObject(checkpoint.config, "text_config");
  const json *found = findObject(checkpoint.config, "quantization_config");
  if (!found && text)
    found = findObject(*text, "quantization_config");
  if (!found)
    found = findObject(checkpoint.config, "compression_config");
  if (!found)
    found = findObject(checkpoint.hfQuantConfig, "quantization");
  if (!found)
    return "";
  for (const char *key : {"quant_method", "quant_algo"})
    if (const std::string *word = findString(*found, key))
      return *word;
  return "";
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

struct Tally {
  int64_t tensors = 0;
  int64_t bytes = 0;
  void add(const TensorInfo &tensor) {
    ++tensors;
    bytes += tensor.bytes; // TensorTable::finish checked the sum
  }
};

struct Summary {
  std::string architecture, method;
  Tally total;
  std::map<std::pair<StoredType, Packing>, Tally> byType;
  std::vector<Tally> byFile;
  std::vector<FoldedLine> lines;
};

Summary summarise(const Checkpoint &checkpoint) {
  Summary summary;
  const TensorTable &table = checkpoint.tensors;
  summary.architecture = findArchitecture(checkpoint.config);
  summary.method = findMethod(checkpoint);
  summary.byFile.resize(table.files.size());
  for (const TensorInfo &tensor : table.all()) {
    summary.total.add(tensor);
    summary.byType[{tensor.type, tensor.packing}].add(tensor);
    summary.byFile[tensor.file].add(tensor);
    // Nothing is declared: each tensor says how it is packed.
    if (summary.method.empty() && tensor.packing != Packing::None)
      summary.method = "gguf";
  }
  summary.lines = foldTensors(table.all());
  return summary;
}

std::string plural(int64_t count, const char *noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

/// "755.61 GB" beside the exact number; units of 1000, as file sizes are sold.
std::string printBytes(int64_t bytes) {
  std::string exact = plural(bytes, "byte");
  if (bytes < 1000)
    return exact;
  static constexpr const char *kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = double(bytes) / 1000;
  int unit = 0;
  for (; value >= 999.995 && unit < 5; ++unit)
    value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %s", value, kUnits[unit]);
  return std::string(text) + " (" + exact + ")";
}

std::string baseName(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

/// Columns of text, each as wide as its widest cell; the last is not padded.
class Columns {
public:
  void add(std::vector<std::string> cells) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (size_t i = 0; i + 1 < cells.size(); ++i)
      widths[i] = std::max(widths[i], countCharacters(cells[i]));
    rows.push_back(std::move(cells));
  }
  void print(std::ostream &out) const {
    std::string line;
    for (const std::vector<std::string> &cells : rows) {
      line = "  ";
      for (size_t i = 0; i < cells.size(); ++i) {
        line += cells[i];
        if (i + 1 < cells.size())
          line.append(widths[i] - countCharacters(cells[i]) + 2, ' ');
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out << line << '\n';
    }
  }

private:
  static size_t countCharacters(std::string_view text) {
    return std::count_if(text.begin(), text.end(),
                         [](char c) { return (c & 0xC0) != 0x80; });
  }
  std::vector<size_t> widths;
  std::vector<std::vector<std::string>> rows;
};

std::string_view printType(const std::pair<StoredType, Packing> &type) {
  return type.second == Packing::None ? storedTypeName(type.first)
                                      : packingName(type.second);
}

std::string printShape(const TensorInfo &tensor) {
  std::string text = tensor.describe();
  return text.substr(text.find(' ') + 1);
}

void printText(const Checkpoint &checkpoint, const Summary &summary,
               bool everyTensor, std::ostream &out) {
  const TensorTable &table = checkpoint.tensors;
  out << "checkpoint:    " << escapePath(checkpoint.path) << '\n';
  if (checkpoint.config.is_null())
    out << "architecture:  unknown, there is no config.json\n";
  else
    out << "architecture:  "
        << (summary.architecture.empty() ? "not in config.json"
                                         : escapeName(summary.architecture))
        << '\n';
  out << "quantisation:  "
      << (summary.method.empty() ? "none declared" : escapeName(summary.method))
      << '\n';
  out << "tokenizer:     "
      << (!checkpoint.hasTokenizer ? "none"
          : checkpoint.gguf        ? "in the metadata"
                                   : "tokenizer.json")
      << '\n';
  if (checkpoint.gguf)
    out << "format:        GGUF version " << checkpoint.gguf->version << '\n';
  out << "files:         " << plural(int64_t(table.files.size()), "file")
      << '\n';
  out << "tensors:       " << plural(summary.total.tensors, "tensor") << ", "
      << printBytes(summary.total.bytes) << '\n';
  out << "header hash:   " << table.hash() << '\n';

  out << "\nby dtype:\n";
  Columns types;
  for (const auto &[type, tally] : summary.byType)
    types.add({std::string(printType(type)), plural(tally.tensors, "tensor"),
               printBytes(tally.bytes)});
  types.print(out);

  Columns rows;
  if (everyTensor) {
    out << "\ntensors:\n";
    for (const TensorInfo &tensor : table.all())
      rows.add({escapeName(tensor.name), std::string(tensor.storedName()),
                printShape(tensor), plural(tensor.bytes, "byte"),
                escapePath(baseName(table.files[tensor.file]))});
  } else {
    out << "\ntensors, numbers folded:\n";
    for (const FoldedLine &line : summary.lines)
      rows.add({printName(line, /*raw=*/false),
                std::string(line.example->storedName()),
                printShape(*line.example),
                line.count == 1 ? "" : "x " + std::to_string(line.count)});
  }
  rows.print(out);
}

void printJson(const Checkpoint &checkpoint, const Summary &summary,
               bool everyTensor, std::ostream &out) {
  const TensorTable &table = checkpoint.tensors;
  auto orNull = [](const std::string &text) {
    return text.empty() ? ordered_json() : ordered_json(text);
  };
  ordered_json root;
  root["checkpoint"] = checkpoint.path;
  root["architecture"] = orNull(summary.architecture);
  root["quant_method"] = orNull(summary.method);
  root["tokenizer"] = checkpoint.hasTokenizer;
  root["hash"] = table.hash();
  root["tensor_count"] = summary.total.tensors;
  root["tensor_bytes"] = summary.total.bytes;
  ordered_json &files = root["files"] = ordered_json::array();
  for (size_t i = 0; i < table.files.size(); ++i)
    files.push_back({{"name", baseName(table.files[i])},
                     {"bytes", table.fileBytes[i]},
                     {"tensor_count", summary.byFile[i].tensors}});
  ordered_json &types = root["dtypes"] = ordered_json::object();
  for (const auto &[type, tally] : summary.byType)
    types[std::string(printType(type))] = {{"tensor_count", tally.tensors},
                                           {"tensor_bytes", tally.bytes}};
  ordered_json &patterns = root["patterns"] = ordered_json::array();
  for (const FoldedLine &line : summary.lines)
    patterns.push_back({{"name", printName(line, /*raw=*/true)},
                        {"dtype", line.example->storedName()},
                        {"shape", line.example->shape},
                        {"count", line.count}});
  // A path may be no UTF-8, on which `dump` would throw otherwise.
  std::string text = root.dump(-1, ' ', false, json::error_handler_t::replace);
  if (everyTensor) {
    // Row by row: as a tree 100,000 tensors would take longer than reading
    // them.
    text.back() = ',';
    out << text << "\"tensors\":[";
    const char *separator = "";
    for (const TensorInfo &tensor : table.all()) {
      out << std::exchange(separator, ",")
          << "{\"name\":" << dumpJson(tensor.name) << ",\"dtype\":\""
          << tensor.storedName() << "\",\"shape\":" << printShape(tensor)
          << ",\"bytes\":" << tensor.bytes << ",\"offset\":" << tensor.offset
          << ",\"file\":" << dumpJson(baseName(table.files[tensor.file]))
          << '}';
    }
    text = "]}";
  }
  out << text << '\n';
}

} // namespace

Status octet::printInfo(const InfoOptions &options, std::ostream &out) {
  OCTET_TRY_ASSIGN(Checkpoint checkpoint,
                   openCheckpoint(options.path, {.needConfig = false}));
  Summary summary = summarise(checkpoint);
  if (options.json)
    printJson(checkpoint, summary, options.tensors, out);
  else
    printText(checkpoint, summary, options.tensors, out);
  return Status::success();
}
