#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

// All JSON is read by parsed() or parsed_or_discarded(): a document that the user or another
// program wrote may be nested so deeply that copying or printing it would overflow the stack. For
// files that people write (plans, transforms), Fields collects every problem with its path.
namespace slipstream::json {

using Json = nlohmann::ordered_json;
using Problems = std::vector<std::string>;

/// Parses `text`. Throws Refused if it is not JSON, if it is nested too deeply, or if an object has
/// a key twice. `what` names the document in messages: "this plan", "these transforms".
Json parsed(std::string_view text, const std::string& what);
/// Parses `text` without throwing. Returns a discarded value (is_discarded()) if it is not JSON or
/// is nested too deeply. If an object has a key twice, the last value is used.
Json parsed_or_discarded(std::string_view text);
/// Throws Refused with all `problems`, one per line. Does nothing if there are none.
void refuse_document(const std::string& what, const Problems& problems);

/// Formats a value for a message, in at most 60 characters.
std::string shown(const Json& value);
/// Returns true if `value` is an integer that fits into a signed 64-bit integer.
bool is_integer(const Json& value);
/// Appends to `problems` that the value at `path` must be `what`.
void must_be(const std::string& path, const std::string& what, const Json& value,
             Problems& problems);

/// Sets `out` to the value, or appends to `problems` that it must have that type.
void take(const Json& value, const std::string& path, bool& out, Problems& problems);
void take(const Json& value, const std::string& path, std::string& out, Problems& problems);
void take(const Json& value, const std::string& path, double& out, Problems& problems);
void take(const Json& value, const std::string& path, std::int64_t& out, Problems& problems);

/// Reads the keys of one JSON object and collects problems. Borrows the value and `problems`.
class Fields {
 public:
  /// `path` is the path of the object, or empty for the document, which messages then call `what`.
  /// If the value is not an object, that is reported and it has no keys.
  Fields(const Json& value, std::string path, const std::string& what, Problems& problems);

  std::string full_path(const std::string& key) const;
  bool is_object() const { return value_.is_object(); }
  /// Returns the value of `key`, or nullptr if it is missing.
  const Json* find(const std::string& key);
  /// Like find(), but reports a missing key as a problem.
  const Json* find_required(const std::string& key);
  void must_be(const std::string& key, const std::string& what, const Json& value);
  /// Appends a problem if the value of the key "version" is present and not `version`.
  void check_version(const Json* value, std::int64_t version);
  /// Reports every key that was not requested before as a problem. `notes` holds additional text
  /// for some of these keys.
  void refuse_others(const std::map<std::string, std::string>& notes = {});
  Problems& problems() { return problems_; }

 private:
  const Json& value_;
  std::string path_;
  Problems& problems_;
  std::vector<std::string> known_;
};

}  // namespace slipstream::json
