#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "slipstream/loader/sample_options.h"

namespace slipstream {

/// Value of an option: a flag, an integer, a number or a text.
using OptionValue = std::variant<bool, std::int64_t, double, std::string>;

/// A function that returns the problem with a value, or "" if it is valid.
using OptionCheck = std::function<std::string(const OptionValue&)>;
/// Returns a check that an integer or a number is finite and above 0.
OptionCheck positive();
/// Returns a check that an integer or a number is at least `least`.
OptionCheck no_less_than(double least);
/// Returns a check that an integer or a number is in [least, most].
OptionCheck within(double least, double most);
/// Returns a check that a text is one of `names`.
OptionCheck one_of(std::vector<std::string> names);

/// An option of a workload: `--name VALUE` on the command line, or `--name` for a flag.
/// In reports, its name has '_' for each '-'.
struct Option {
  std::string name;  ///< lower-case letters, digits and '-', beginning with a letter: "image-size"
  std::string help;  ///< its description in --help
  /// The default. Its type is the type of the option. The default of a flag must be false. A
  /// default that is "" or that `check` refuses means that there is no value, and --help does not
  /// show it.
  OptionValue value = false;
  OptionCheck check = {};  ///< checks values that the user gives; empty: all values are valid
  std::string group = {};  ///< its heading in --help; "": a heading with the workload's name
};
/// The options that a workload declares.
using OptionList = std::vector<Option>;

/// Returns the options of both lists, in their order.
OptionList operator+(OptionList some, const OptionList& more);
/// Returns the list with `value` as default of the option `name`. REQUIRES: the option is in the
/// list
OptionList with_default(OptionList list, const std::string& name, OptionValue value);

/// The options for creating a workload's pipeline: the options that the workload declares, by name,
/// and the options of all workloads, as members. Four of the members are those of SampleOptions;
/// `seed` is also used for initial weights. An option that the workload reads or sets is *in
/// force*, and reports list it. If an option is given but not read, make_pipeline() refuses it. One
/// thread at a time may use the object.
class Options : private SampleOptions {
 public:
  using SampleOptions::batch_size;
  using SampleOptions::drop_last;
  using SampleOptions::seed;
  using SampleOptions::shuffle;
  /// Returns the options of the workload's samples: those above, and the defaults of all others.
  SampleOptions& samples() { return *this; }
  const SampleOptions& samples() const { return *this; }

  /// Whether samples need labels. `predict` sets it to false. The built-in workloads then also
  /// accept a folder that contains only images.
  bool needs_labels = true;
  /// Number of classes of the loaded weights, or 0 if unknown, and their names by number, empty if
  /// unknown. Unless options specify something else, the built-in workloads use these classes for
  /// images without labels, and number class folders in this order.
  std::int64_t class_count = 0;
  std::vector<std::string> class_names = {};

  /// Creates the options that a workload declares, with their defaults. Throws Refused for names
  /// that Option does not allow, duplicate names, and flags whose default is true.
  explicit Options(const OptionList& declared);

  /// Whether an option with this name was declared or set.
  bool has(const std::string& name) const;
  /// Whether the user gave a value. False for an option that is not declared.
  bool is_given(const std::string& name) const;
  /// Whether the option has a valid value, given or by default. False for an option that is not
  /// declared. The option does not count as read.
  bool has_value(const std::string& name) const;
  /// Returns the value of a flag, given or by default. Throws Refused if the option is not declared
  /// or is not a flag.
  bool flag(const std::string& name) const;
  /// Returns the value of an integer option, given or by default. Throws Refused if the option is
  /// not declared or is not an integer.
  std::int64_t integer(const std::string& name) const;
  /// Returns the value of a number option, given or by default. Throws Refused if the option is not
  /// declared or is not a number.
  double number(const std::string& name) const;
  /// Returns the value of a text option, given or by default. Throws Refused if the option is not
  /// declared or is not a text.
  std::string text(const std::string& name) const;

  /// Gives an option a value, as the user does on the command line. An integer is accepted for a
  /// number. Throws Refused for an option that is not declared (with the nearest name), for a value
  /// of another type, and for a value that the option's check refuses.
  void give(const std::string& name, OptionValue value);
  /// Replaces the default of an option that the user did not give. Throws Refused as give() does.
  void set_default(const std::string& name, OptionValue value);
  /// Returns the value of an option of any type, given or by default. The option does not count as
  /// read. Throws Refused for an option that is not declared.
  OptionValue value(const std::string& name) const;
  /// Sets the value that is in force if it differs from the requested one, for example the number
  /// of classes of the data, or a size that the workload fixes. The functions above then return
  /// this value. The option need not be declared.
  void set(const std::string& name, OptionValue value);

  /// Returns the options that were read or set, in the order of their declaration, followed by
  /// undeclared ones in the order of the set() calls.
  std::vector<std::pair<std::string, OptionValue>> in_force() const;
  /// Returns the names of options that were given but not read.
  std::vector<std::string> unread() const;

 private:
  struct Entry {
    Option option;
    bool is_given = false;
    bool is_set = false;
    mutable bool is_read = false;
  };

  const Entry* find(const std::string& name) const;
  Entry& take(const std::string& name, OptionValue value);
  template <typename T>
  T read(const std::string& name) const;

  std::vector<Entry> entries_;
};

/// Returns the options of data. `data`: "synthetic", or the path of a data set. `classes`: number
/// of classes if the data do not contain it. `classes-from`: how classes are numbered, in the form
/// that class_names_from() reads. pipeline() reads the others: `background`, `sampler`,
/// `on-bad-sample`, `disk-cache`.
OptionList data_options();
/// Returns the options that make_optimizer() reads: `optimizer`, `lr`, `momentum`, `nesterov`,
/// `weight-decay`, `no-weight-decay-on`.
OptionList optimizer_options();

}  // namespace slipstream
