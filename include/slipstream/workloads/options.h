#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace slipstream {

/// A flag, a whole number, a number or a text.
using OptionValue = std::variant<bool, std::int64_t, double, std::string>;

/// Returns what is wrong with a value, "" when nothing is.
using OptionCheck = std::function<std::string(const OptionValue&)>;
/// Of numbers, whole or not: finite and above 0; from `least` on; from `least` to `most`.
OptionCheck positive();
OptionCheck no_less_than(double least);
OptionCheck within(double least, double most);
/// Of texts.
OptionCheck one_of(std::vector<std::string> names);

/// An option that a workload takes: `--name VALUE` on the command line, or `--name` of a flag.
/// Reports call it as it is called here, with '_' for each '-'.
struct Option {
  std::string name;  ///< small letters, digits and '-', a letter first: "image-size"
  std::string help;  ///< what --help says
  /// What holds where the option is not given; of its type the values are. A flag begins as false.
  /// --help does not show "" and what `check` refuses: they stand for no value.
  OptionValue value = false;
  OptionCheck check = {};  ///< of values that are given
  std::string group = {};  ///< the heading in --help; "": one that names the workload
};
using OptionList = std::vector<Option>;

OptionList operator+(OptionList some, const OptionList& more);
/// The list with another value where `name` is not given. REQUIRES: the option is in the list
OptionList with_default(OptionList list, const std::string& name, OptionValue value);

/// What a workload is asked for: its own options by name, and what every workload is asked for as
/// members. An option that the workload reads or sets is in force, and reports list it; one that
/// was given and is not read is refused (make_pipeline). One thread at a time may use it.
class Options {
 public:
  std::size_t batch_size = 8;
  std::uint64_t seed = 1;  ///< order, random draws and initial weights
  bool shuffle = true;     ///< PipelineOptions::shuffle
  bool drop_last = true;   ///< PipelineOptions::drop_last

  /// Those that a workload declares, none of them given. Throws Refused for names that are not as
  /// Option wants them, or there twice.
  explicit Options(const OptionList& declared);

  bool has(const std::string& name) const;
  /// Whether the user gave a value; false for an option that is not declared.
  bool is_given(const std::string& name) const;
  /// Whether there is a value, given or not: one that the option's check takes. False for an option
  /// that is not declared. The option does not count as read.
  bool has_value(const std::string& name) const;
  /// The value of an option of that type, given or not. They throw Refused for an option that is
  /// not declared, or is of another type.
  bool flag(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  std::string text(const std::string& name) const;

  /// As the user does; a whole number does for a number. Throws Refused for an option that is not
  /// declared, with the nearest, for another type, and for what the option's check refuses.
  void give(const std::string& name, OptionValue value);
  /// Says what is in force where it is not what was asked for: the classes that the data have, a
  /// size that the workload fixes. That is what reading gives from here on. The option need not be
  /// declared.
  void set(const std::string& name, OptionValue value);

  /// What was read or set, in the order of declaration, then of set().
  std::vector<std::pair<std::string, OptionValue>> in_force() const;
  /// What was given and not read.
  std::vector<std::string> unread() const;

 private:
  struct Entry {
    Option option;
    bool is_given = false;
    bool is_set = false;
    mutable bool is_read = false;
  };

  const Entry* find(const std::string& name) const;
  template <typename T>
  T read(const std::string& name) const;

  std::vector<Entry> entries_;
};

/// "synthetic" or where the data are (`data`), how many `classes` they have where they do not say,
/// how those are numbered (`classes-from`, as class_names_from() reads it), and what pipeline()
/// reads: `background`, `sampler`, `on-bad-sample`, `disk-cache`.
OptionList data_options();
/// What make_optimizer() reads: `optimizer`, `lr`, `momentum`, `weight-decay`.
OptionList optimizer_options();

}  // namespace slipstream
