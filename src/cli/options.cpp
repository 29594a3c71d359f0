#include "slipstream/cli/options.h"

#include <algorithm>
#include <cmath>

#include "cli/option_text.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

bool is_name(const std::string& name) {
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  return !name.empty() && is_small(name.front()) && name.back() != '-' &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_small(c) || (c >= '0' && c <= '9') || c == '-'; });
}

std::vector<std::string> option_names(const OptionList& list) {
  std::vector<std::string> names;
  for (const Option& option : list) names.push_back(option.name);
  return names;
}

double to_number(const OptionValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  return std::get<double>(value);
}

void check_names(const OptionList& declared) {
  std::vector<std::string> problems, seen;
  for (const Option& option : declared) {
    const bool is_flag = std::holds_alternative<bool>(option.value);
    if (!is_name(option.name))
      problems.push_back("the option '" + option.name +
                         "': a name is small letters, digits and '-', a letter first");
    if (std::find(seen.begin(), seen.end(), option.name) != seen.end())
      problems.push_back("the option '" + option.name + "' is declared twice");
    if (is_flag && std::get<bool>(option.value))
      problems.push_back("the option '" + option.name + "': a flag begins as false");
    seen.push_back(option.name);
  }
  refuse(problems);
}

}  // namespace

OptionCheck positive() {
  return [](const OptionValue& value) {
    const double number = to_number(value);
    return number > 0 && std::isfinite(number) ? "" : to_text(value) + " is not above 0 and finite";
  };
}

OptionCheck no_less_than(double least) {
  return [least](const OptionValue& value) {
    return to_number(value) >= least ? "" : to_text(value) + " is less than " + to_text(least);
  };
}

OptionCheck within(double least, double most) {
  return [least, most](const OptionValue& value) {
    const double number = to_number(value);
    return number >= least && number <= most
               ? ""
               : to_text(value) + " is not from " + to_text(least) + " to " + to_text(most);
  };
}

OptionCheck one_of(std::vector<std::string> names) {
  return [names = std::move(names)](const OptionValue& value) {
    const std::string& name = std::get<std::string>(value);
    const bool is_known = std::find(names.begin(), names.end(), name) != names.end();
    return is_known ? "" : unknown_name("choice", name, names);
  };
}

OptionList operator+(OptionList some, const OptionList& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

OptionList with_default(OptionList list, const std::string& name, OptionValue value) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Option& option) { return option.name == name; });
  ensure(found != list.end(), "with_default() names an option of the list");
  found->value = std::move(value);
  return list;
}

Options::Options(const OptionList& declared) {
  check_names(declared);
  for (const Option& option : declared) entries_.push_back({option});
}

const Options::Entry* Options::find(const std::string& name) const {
  for (const Entry& entry : entries_)
    if (entry.option.name == name) return &entry;
  return nullptr;
}

bool Options::has(const std::string& name) const { return find(name) != nullptr; }

bool Options::is_given(const std::string& name) const {
  const Entry* entry = find(name);
  return entry != nullptr && entry->is_given;
}

bool Options::has_value(const std::string& name) const {
  const Entry* entry = find(name);
  if (entry == nullptr) return false;
  const Option& option = entry->option;
  if (option.value == OptionValue(std::string())) return false;
  return !option.check || option.check(option.value).empty();
}

template <typename T>
T Options::read(const std::string& name) const {
  const Entry* entry = find(name);
  if (entry == nullptr)
    throw Refused("the workload reads the option '" + name +
                  "', which it does not declare: add it to Workload::options");
  const T* value = std::get_if<T>(&entry->option.value);
  if (value == nullptr)
    throw Refused("the workload reads the option '" + name + "' as a " + kind_name(T()) +
                  ", but it is a " + kind_name(entry->option.value));
  entry->is_read = true;
  return *value;
}

bool Options::flag(const std::string& name) const { return read<bool>(name); }
std::int64_t Options::integer(const std::string& name) const { return read<std::int64_t>(name); }
double Options::number(const std::string& name) const { return read<double>(name); }
std::string Options::text(const std::string& name) const { return read<std::string>(name); }

void Options::give(const std::string& name, OptionValue value) {
  take(name, std::move(value)).is_given = true;
}

void Options::set_default(const std::string& name, OptionValue value) {
  if (!is_given(name)) static_cast<void>(take(name, std::move(value)));
}

OptionValue Options::value(const std::string& name) const {
  const Entry* entry = find(name);
  if (entry == nullptr) throw Refused("there is no option --" + name);
  return entry->option.value;
}

Options::Entry& Options::take(const std::string& name, OptionValue value) {
  OptionList declared;
  for (Entry& entry : entries_) {
    Option& option = entry.option;
    declared.push_back(option);
    if (option.name != name) continue;
    if (std::holds_alternative<double>(option.value) && std::holds_alternative<std::int64_t>(value))
      value = to_number(value);
    if (value.index() != option.value.index())
      throw Refused("--" + name + " takes a " + kind_name(option.value) + ", not " +
                    to_text(value));
    const std::string problem = option.check ? option.check(value) : "";
    if (!problem.empty()) throw Refused("--" + name + ": " + problem);
    option.value = std::move(value);
    return entry;
  }
  throw Refused(unknown_name("option", name, option_names(declared)));
}

void Options::set(const std::string& name, OptionValue value) {
  for (Entry& entry : entries_)
    if (entry.option.name == name) {
      entry.option.value = std::move(value);
      entry.is_set = true;
      return;
    }
  entries_.push_back(
      {.option = {.name = name, .help = "", .value = std::move(value)}, .is_set = true});
}

std::vector<std::pair<std::string, OptionValue>> Options::in_force() const {
  std::vector<std::pair<std::string, OptionValue>> list;
  for (const Entry& entry : entries_)
    if (entry.is_read || entry.is_set) list.emplace_back(entry.option.name, entry.option.value);
  return list;
}

std::vector<std::string> Options::unread() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_)
    if (entry.is_given && !entry.is_read) names.push_back(entry.option.name);
  return names;
}

}  // namespace slipstream
