//===- TemplateValue.h - Values of chat templates ------------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Python's values as a template sees them. Lists, dicts and strings never
// change once they are made (the sandbox of transformers forbids it), so values
// share them; a container knows how deep it nests, which bounds every walk.
// Namespaces, macros and loops belong to the interpreter: they may refer to
// each other in circles.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_TEMPLATEVALUE_H
#define OCTET_LIB_TEXT_TEMPLATEVALUE_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octet::jinja {

enum class Kind : uint8_t {
  Undefined,
  None,
  Bool,
  Int,
  Float,
  String,
  List,
  Tuple,
  Dict,
  Range,
  View,      ///< dict.keys(), .values(), .items()
  Generator, ///< what map, select, … return: read once
  Function,  ///< range, namespace, …
  Method,    ///< a method with its object
  Namespace,
  Macro,
  Loop,
};

struct Object {
  virtual ~Object() = default;
  int depth = 1; ///< nesting: 1 + that of the deepest element
};

struct Namespace;
struct Macro;
struct Loop;
struct StringObject;
struct SequenceObject;
struct DictObject;
struct RangeObject;
struct ViewObject;
struct GeneratorObject;
struct MethodObject;

class Value {
public:
  Value() = default; ///< undefined

  static Value none() { return Value(Kind::None); }
  static Value boolean(bool b) {
    Value v(Kind::Bool);
    v.i = b;
    return v;
  }
  static Value integer(int64_t i) {
    Value v(Kind::Int);
    v.i = i;
    return v;
  }
  static Value number(double d) {
    Value v(Kind::Float);
    v.d = d;
    return v;
  }
  static Value string(std::string text);
  /// Undefined, with the message of an operation that needs more.
  static Value undefined(std::string message);
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value dict(std::vector<std::pair<Value, Value>> entries);
  static Value range(int64_t start, int64_t stop, int64_t step);
  static Value generator(std::vector<Value> items);
  static Value view(const Value &dict, std::string_view name);
  static Value method(const Value &self, std::string_view name);
  static Value function(std::string_view name);
  static Value of(Namespace *ns) { return Value(Kind::Namespace, ns); }
  static Value of(const Macro *macro) {
    return Value(Kind::Macro, const_cast<Macro *>(macro));
  }
  static Value of(Loop *loop) { return Value(Kind::Loop, loop); }

  Kind kind() const { return type; }
  bool is(Kind k) const { return type == k; }
  bool isUndefined() const { return is(Kind::Undefined); }
  bool isNone() const { return is(Kind::None); }
  bool isString() const { return is(Kind::String); }
  /// A bool or an int, which Python treats as one.
  bool isInt() const { return is(Kind::Int) || is(Kind::Bool); }
  bool isNumber() const { return isInt() || is(Kind::Float); }
  bool isSequence() const { return is(Kind::List) || is(Kind::Tuple); }

  int64_t asInt() const { return i; }
  double asFloat() const { return is(Kind::Float) ? d : double(i); }
  const std::string &text() const;
  /// The message of Value::undefined.
  std::string undefinedMessage() const;
  const std::vector<Value> &items() const; ///< of a list or tuple
  const DictObject &dict() const;
  const RangeObject &range() const;
  const ViewObject &view() const;
  GeneratorObject &generator() const;
  const MethodObject &method() const;
  Namespace &ns() const { return *static_cast<Namespace *>(raw); }
  const Macro &macro() const { return *static_cast<const Macro *>(raw); }
  Loop &loop() const { return *static_cast<Loop *>(raw); }
  int depth() const { return object ? object->depth : 0; }
  /// The same object, Python's `is`.
  bool same(const Value &other) const;

  /// Marked by `safe`: markupsafe's strings escape what is added to them.
  bool markup = false;

private:
  explicit Value(Kind kind, void *raw = nullptr) : type(kind), raw(raw) {}
  Value(Kind kind, std::shared_ptr<Object> object)
      : type(kind), object(std::move(object)) {}

  Kind type = Kind::Undefined;
  union {
    int64_t i = 0;
    double d;
    void *raw;
  };
  std::shared_ptr<Object> object;
};

struct StringObject : Object {
  std::string text;
};

struct SequenceObject : Object {
  std::vector<Value> items;
};

/// In the order of insertion.
struct DictObject : Object {
  std::vector<std::pair<Value, Value>> entries;
  std::map<std::string, size_t> index; ///< by keyText, of larger dicts
  /// nullptr if there is none, or the key is not hashable.
  const Value *find(const Value &key) const;
  const Value *find(std::string_view key) const;
};

struct RangeObject : Object {
  int64_t start, stop, step;
  int64_t size() const;
  int64_t at(int64_t i) const { return start + i * step; }
};

struct ViewObject : Object {
  Value dict;
  std::string name; ///< keys, values or items
};

struct GeneratorObject : Object {
  std::vector<Value> items;
  size_t next = 0;
};

struct MethodObject : Object {
  Value self;
  std::string name;
};

struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
  std::vector<std::string> order;
};

/// The same text for two keys that Python takes for one (1, 1.0 and True);
/// false if the value is not hashable.
bool keyText(const Value &key, std::string &out);

/// Python's `bool(value)`.
bool truthy(const Value &value);
/// Elements of what has a length, -1 of what has none. Of a string, characters.
int64_t lengthOf(const Value &value);
/// Python's name of the type: `str`, `NoneType`, …
std::string_view typeName(const Value &value);
/// Whether Python's type has an attribute of that name.
bool hasAttribute(const Value &value, std::string_view name);
/// Python's `repr` of a float: `1.0`, `1e-05`, `inf`.
std::string floatText(double value);

} // namespace octet::jinja

#endif // OCTET_LIB_TEXT_TEMPLATEVALUE_H
