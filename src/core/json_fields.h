#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

// Reading JSON, all of it by parsed() and parsed_or_discarded(): a document that the user or
// another program wrote may be nested so deeply that copying or printing it would exhaust the
// stack. For files that people write (plans, transforms), Fields collects every problem with its
// path.
namespace slipstream::json {

using Json = nlohmann::ordered_json;
using Problems = std::vector<std::string>;

/// Throws Refused for what is not JSON, and for a key that an object has twice; `what` names the
/// document in messages: "this plan", "these transforms".
Json parsed(std::string_view text, const std::string& what);
/// The same without an exception: a discarded value (is_discarded()) for what is not JSON or is
/// nested too deeply. Of a key that an object has twice, the last value counts.
Json parsed_or_discarded(std::string_view text);
/// Throws Refused with all of `problems`, a line each, unless there are none.
void refuse_document(const std::string& what, const Problems& problems);

/// A value as messages show it.
std::string shown(const Json& value);
/// Whether it is a whole number that 64 bits with a sign hold.
bool is_integer(const Json& value);
/// Adds to `problems` that what is at `path` must be something else.
void must_be(const std::string& path, const std::string& what, const Json& value,
             Problems& problems);

/// Gives `out` the value, or adds to `problems` that it must be of that type.
void take(const Json& value, const std::string& path, bool& out, Problems& problems);
void take(const Json& value, const std::string& path, std::string& out, Problems& problems);
void take(const Json& value, const std::string& path, double& out, Problems& problems);
void take(const Json& value, const std::string& path, std::int64_t& out, Problems& problems);

/// The keys of one object.
class Fields {
 public:
  /// `path`: of the object; empty for the document, which is then called `what`. What is no
  /// object is a problem, and has no keys.
  Fields(const Json& value, std::string path, const std::string& what, Problems& problems);

  std::string full_path(const std::string& key) const;
  bool is_object() const { return value_.is_object(); }
  /// The value of `key`, or nullptr where it is not there.
  const Json* find(const std::string& key);
  /// As find(); that it is not there is a problem.
  const Json* find_required(const std::string& key);
  void must_be(const std::string& key, const std::string& what, const Json& value);
  /// Adds a problem unless the value of the key "version" is `version`, or it is not there.
  void check_version(const Json* value, std::int64_t version);
  /// Every key that was not asked for is a problem. `notes`: what else to say of some of them.
  void refuse_others(const std::map<std::string, std::string>& notes = {});
  Problems& problems() { return problems_; }

 private:
  const Json& value_;
  std::string path_;
  Problems& problems_;
  std::vector<std::string> known_;
};

}  // namespace slipstream::json
