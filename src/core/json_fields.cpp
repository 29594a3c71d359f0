#include "core/json_fields.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "core/plain_message.h"
#include "slipstream/core/error.h"

namespace slipstream::json {
namespace {

constexpr std::size_t kLongestShown = 60;
/// Copying and printing a document recurse, and a deeply nested one would need more stack than its
/// text has bytes. Documents that are nested deeper than any of ours are refused before parsing.
constexpr int kMostDepth = 64;

bool is_too_deep(std::string_view json) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size() && depth <= kMostDepth; ++i) {
    const char c = json[i];
    if (in_text && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_text = !in_text;
    } else if (!in_text) {
      depth += c == '[' || c == '{' ? 1 : 0;
      depth -= c == ']' || c == '}' ? 1 : 0;
    }
  }
  return depth > kMostDepth;
}

}  // namespace

Json parsed(std::string_view text, const std::string& what) {
  if (is_too_deep(text)) throw Refused(what + " cannot be read: it is nested too deeply");
  std::vector<std::set<std::string>> keys;
  // The parser would silently keep the last value of a repeated key, while a person may have meant
  // the first.
  const auto check_keys = [&](int, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      throw Refused(what + " cannot be read: the key '" + printable_name(value.get<std::string>()) +
                    "' occurs twice in one object");
    return true;
  };
  try {
    return Json::parse(text, check_keys);
  } catch (const Json::exception& error) {
    throw Refused(what + " must be JSON: " + json_problem(error));
  }
}

Json parsed_or_discarded(std::string_view text) {
  if (is_too_deep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

void refuse_document(const std::string& what, const Problems& problems) {
  std::string message;
  for (const std::string& problem : problems) message += "\n  " + problem;
  if (!message.empty()) throw Refused(what + " cannot be read:" + message);
}

std::string shown(const Json& value) {
  // Printing a container recurses, and a deeply nested one would overflow the stack.
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  if (value.is_structured()) return std::string("an ") + value.type_name();
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongestShown) text.resize(kLongestShown);
  return text;
}

bool is_integer(const Json& value) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer()) return false;
  return !value.is_number_unsigned() || value.get<std::uint64_t>() <= kMost;
}

void must_be(const std::string& path, const std::string& what, const Json& value,
             Problems& problems) {
  problems.push_back(path + " must be " + what + ", not " + shown(value));
}

void take(const Json& value, const std::string& path, bool& out, Problems& problems) {
  if (!value.is_boolean()) return must_be(path, "true or false", value, problems);
  out = value.get<bool>();
}

void take(const Json& value, const std::string& path, std::string& out, Problems& problems) {
  if (!value.is_string()) return must_be(path, "a string", value, problems);
  out = value.get<std::string>();
}

void take(const Json& value, const std::string& path, double& out, Problems& problems) {
  if (!value.is_number()) return must_be(path, "a number", value, problems);
  out = value.get<double>();
}

void take(const Json& value, const std::string& path, std::int64_t& out, Problems& problems) {
  if (!is_integer(value)) return must_be(path, "a whole number", value, problems);
  out = value.get<std::int64_t>();
}

Fields::Fields(const Json& value, std::string path, const std::string& what, Problems& problems)
    : value_(value), path_(std::move(path)), problems_(problems) {
  if (value.is_object()) return;
  json::must_be(path_.empty() ? what : path_, "an object", value, problems);
}

std::string Fields::full_path(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

const Json* Fields::find(const std::string& key) {
  known_.push_back(key);
  const auto found = value_.is_object() ? value_.find(key) : value_.end();
  return found == value_.end() ? nullptr : &*found;
}

const Json* Fields::find_required(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr && value_.is_object()) problems_.push_back(full_path(key) + " is missing");
  return value;
}

void Fields::must_be(const std::string& key, const std::string& what, const Json& value) {
  json::must_be(full_path(key), what, value, problems_);
}

void Fields::check_version(const Json* value, std::int64_t version) {
  std::int64_t read = version;
  if (value != nullptr) take(*value, full_path("version"), read, problems_);
  if (read == version) return;
  problems_.push_back(full_path("version") + " is " + std::to_string(read) +
                      "; this program reads version " + std::to_string(version));
}

void Fields::refuse_others(const std::map<std::string, std::string>& notes) {
  if (!value_.is_object()) return;
  for (const auto& item : value_.items()) {
    if (std::find(known_.begin(), known_.end(), item.key()) != known_.end()) continue;
    const auto note = notes.find(item.key());
    problems_.push_back(printable_name(full_path(item.key())) + ": " +
                        unknown_name("key", item.key(), known_) +
                        (note == notes.end() ? "" : "; " + note->second));
  }
}

}  // namespace slipstream::json
