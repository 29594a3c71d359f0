#include "ops/reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "slipstream/core/error.h"

namespace slipstream::chain {
namespace {

constexpr std::size_t kLongestShown = 60;

bool fits(const Json& value) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer()) return false;
  return !value.is_number_unsigned() || value.get<std::uint64_t>() <= kMost;
}

}  // namespace

std::string shown(const Json& value) {
  // Printing a container recurses: a deeply nested one would take the stack.
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  if (value.is_structured()) return std::string("an ") + value.type_name();
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongestShown) text.resize(kLongestShown);
  return text;
}

Reader::Reader(const Json& value, std::string path, Problems& problems)
    : value_(value), path_(std::move(path)), problems_(problems) {
  if (value.is_object()) return;
  problems.push_back((path_.empty() ? "the file of transforms" : path_) +
                     " must be an object, not " + shown(value));
}

std::string Reader::path_of(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

const Json* Reader::find(const std::string& key) {
  known_.push_back(key);
  const auto found = value_.is_object() ? value_.find(key) : value_.end();
  return found == value_.end() ? nullptr : &*found;
}

const Json* Reader::find(const std::string& key, Need need) {
  const Json* value = find(key);
  if (value == nullptr && need == Need::required && value_.is_object()) {
    problems_.push_back(path_of(key) + " is missing");
  }
  return value;
}

void Reader::must_be(const std::string& key, const char* what, const Json& value) {
  problems_.push_back(path_of(key) + " must be " + what + ", not " + shown(value));
}

void Reader::operator()(const std::string& key, std::int64_t& out, Need need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  if (!fits(*value)) return must_be(key, "a whole number", *value);
  out = value->get<std::int64_t>();
}

void Reader::operator()(const std::string& key, double& out, Need need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  if (!value->is_number()) return must_be(key, "a number", *value);
  out = value->get<double>();
}

void Reader::operator()(const std::string& key, std::vector<double>& out, Need need) {
  if (const Json* value = find_numbers(key, need, 1, 4)) out = value->get<std::vector<double>>();
}

const Json* Reader::find_numbers(const std::string& key, Need need, std::size_t least,
                                 std::size_t most) {
  const Json* value = find(key, need);
  if (value == nullptr) return nullptr;
  if (!value->is_array() || value->size() < least || value->size() > most) {
    const std::string lengths =
        (least == most ? "" : std::to_string(least) + " to ") + std::to_string(most);
    must_be(key, ("a list of " + lengths + " numbers").c_str(), *value);
    return nullptr;
  }
  bool are_numbers = true;
  for (std::size_t i = 0; i < value->size(); ++i) {
    if ((*value)[i].is_number()) continue;
    must_be(key + "[" + std::to_string(i) + "]", "a number", (*value)[i]);
    are_numbers = false;
  }
  return are_numbers ? value : nullptr;
}

void Reader::operator()(const std::string& key, std::string& out, Need need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  if (!value->is_string()) return must_be(key, "a string", *value);
  out = value->get<std::string>();
}

void Reader::operator()(const std::string& key, bool& out, Need need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  if (!value->is_boolean()) return must_be(key, "true or false", *value);
  out = value->get<bool>();
}

void Reader::operator()(const std::string& key, Interpolation& out, Need need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  for (const Interpolation each : {Interpolation::nearest, Interpolation::bilinear}) {
    if (*value != name_of(each)) continue;
    out = each;
    return;
  }
  must_be(key, "nearest or bilinear", *value);
}

void Reader::refuse_others() {
  if (!value_.is_object()) return;
  for (const auto& item : value_.items()) {
    if (std::find(known_.begin(), known_.end(), item.key()) != known_.end()) continue;
    problems_.push_back(path_of(item.key()) + ": " + unknown_name("key", item.key(), known_));
  }
}

}  // namespace slipstream::chain
