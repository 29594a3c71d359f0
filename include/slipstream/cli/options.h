#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "slipstream/loader/sample_options.h"

namespace slipstream {

/// The value of an option: a flag, a whole number, a number or a text.
using OptionValue = std::variant<bool, std::int64_t, double, std::string>;

/// A function that returns what is wrong with a value, "" when nothing is.
using OptionCheck = std::function<std::string(const OptionValue&)>;
/// A check that a number, whole or not, is finite and above 0.
OptionCheck positive();
/// A check that a number, whole or not, is at least `least`.
OptionCheck no_less_than(double least);
/// A check that a number, whole or not, is from `least` to `most`.
OptionCheck within(double least, double most);
/// A check that a text is one of `names`.
OptionCheck one_of(std::vector<std::string> names);

/// An option that a workload takes: `--name VALUE` on the command line, or `--name` for a flag.
/// Reports write its name with '_' for each '-'.
struct Option {
  std::string name;  ///< small letters, digits and '-', a letter first: "image-size"
  std::string help;  ///< what --help says of it
  /// The default. Its type is the type of the option. A flag's default is false. A default that is
  /// "" or that `check` refuses stands for no value, and --help does not show it.
  OptionValue value = false;
  OptionCheck check = {};  ///< checks values that are given; empty: all values are taken
  std::string group = {};  ///< its heading in --help; "": a heading that names the workload
};
/// The options that a workload declares.
using OptionList = std::vector<Option>;

/// The options of both lists, in their order.
OptionList operator+(OptionList some, const OptionList& more);
/// The list with `value` as the default of the option `name`. REQUIRES: the option is in the list
OptionList with_default(OptionList list, const std::string& name, OptionValue value);

/// The options with which a workload is made: its own options by name, and those of every workload
/// as members, four of SampleOptions among them; `seed` is also that of initial weights. An option
/// that the workload reads or sets is in force, and reports list it. One that was given and is not
/// read is refused (make_pipeline()). One thread at a time may use the object.
class Options : private SampleOptions {
 public:
  using SampleOptions::batch_size;
  using SampleOptions::drop_last;
  using SampleOptions::seed;
  using SampleOptions::shuffle;
  /// The options of the workload's samples: those above and the defaults of the others.
  SampleOptions& samples() { return *this; }
  const SampleOptions& samples() const { return *this; }

  /// Whether samples need labels. `predict` sets it to false. The built-in workloads then take a
  /// folder of images alone.
  bool needs_labels = true;
  /// The number of classes that the weights at hand tell apart, 0 where it is unknown, and their
  /// names by number, empty where they are. Unless options say otherwise, the built-in workloads
  /// give images without labels these classes, and number class folders so.
  std::int64_t class_count = 0;
  std::vector<std::string> class_names = {};

  /// The options that a workload declares, with their defaults. Throws Refused for names that
  /// Option does not allow, names that come twice, and flags whose default is true.
  explicit Options(const OptionList& declared);

  /// Whether there is an option of that name, declared or set.
  bool has(const std::string& name) const;
  /// Whether the user gave a value; false for an option that is not declared.
  bool is_given(const std::string& name) const;
  /// Whether the option has a value, given or not, that its check takes. False for an option that
  /// is not declared. The option does not count as read.
  bool has_value(const std::string& name) const;
  /// The value of a flag, given or not. Throws Refused for an option that is not declared, or that
  /// is no flag.
  bool flag(const std::string& name) const;
  /// The value of a whole number, given or not. Throws Refused for an option that is not declared,
  /// or that is no whole number.
  std::int64_t integer(const std::string& name) const;
  /// The value of a number, given or not. Throws Refused for an option that is not declared, or
  /// that is no number.
  double number(const std::string& name) const;
  /// The value of a text, given or not. Throws Refused for an option that is not declared, or that
  /// is no text.
  std::string text(const std::string& name) const;

  /// Gives an option a value, as the user does on the command line. A whole number may be given for
  /// a number. Throws Refused for an option that is not declared (with the nearest name), for a
  /// value of another type, and for a value that the option's check refuses.
  void give(const std::string& name, OptionValue value);
  /// Replaces the default of an option that the user did not give. Throws Refused as give() does.
  void set_default(const std::string& name, OptionValue value);
  /// The value of an option of any type, given or not. The option does not count as read. Throws
  /// Refused for an option that is not declared.
  OptionValue value(const std::string& name) const;
  /// Sets the value that is in force where it is not the one that was asked for: the classes that
  /// the data have, a size that the workload fixes. The functions above return it afterwards. The
  /// option need not be declared.
  void set(const std::string& name, OptionValue value);

  /// The options that were read or set, in the order in which they were declared, then that of
  /// set().
  std::vector<std::pair<std::string, OptionValue>> in_force() const;
  /// The names of options that were given and not read.
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

/// The options of data. `data` is "synthetic" or the path of a data set. `classes` is the number of
/// classes where the data do not say it. `classes-from` says how classes are numbered, as
/// class_names_from() reads it. pipeline() reads the others: `background`, `sampler`,
/// `on-bad-sample`, `disk-cache`.
OptionList data_options();
/// The options that make_optimizer() reads: `optimizer`, `lr`, `momentum`, `nesterov`,
/// `weight-decay`, `no-weight-decay-on`.
OptionList optimizer_options();

}  // namespace slipstream
