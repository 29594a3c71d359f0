#include "transforms/reader.h"

#include <algorithm>

namespace slipstream::chain {

void Reader::operator()(const std::string& key, std::vector<double>& out, Presence need) {
  if (const Json* value = find_numbers(key, need, 1, 4)) out = value->get<std::vector<double>>();
}

const Json* Reader::find_numbers(const std::string& key, Presence need, std::size_t least,
                                 std::size_t most) {
  const Json* value = find(key, need);
  if (value == nullptr) return nullptr;
  if (!value->is_array() || value->size() < least || value->size() > most) {
    const std::string lengths =
        (least == most ? "" : std::to_string(least) + " to ") + std::to_string(most);
    must_be(key, "a list of " + lengths + " numbers", *value);
    return nullptr;
  }
  return are_numbers(key, *value) ? value : nullptr;
}

bool Reader::are_numbers(const std::string& key, const Json& list) {
  bool are_numbers = true;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_number()) continue;
    must_be(key + "[" + std::to_string(i) + "]", "a number", list[i]);
    are_numbers = false;
  }
  return are_numbers;
}

void Reader::operator()(const std::string& key, Interpolation& out, Presence need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  struct Name {
    Json name;
    Interpolation meaning;
  };
  // The numbers are PIL's constants, which torchvision accepts, too.
  const Name names[] = {{to_string(Interpolation::nearest), Interpolation::nearest},
                        {to_string(Interpolation::nearest_exact), Interpolation::nearest_exact},
                        {"nearest_exact", Interpolation::nearest_exact},
                        {to_string(Interpolation::bilinear), Interpolation::bilinear},
                        {to_string(Interpolation::bicubic), Interpolation::bicubic},
                        {0, Interpolation::nearest},
                        {2, Interpolation::bilinear},
                        {3, Interpolation::bicubic}};
  for (const auto& [name, meaning] : names) {
    if (*value != name) continue;
    out = meaning;
    return;
  }
  must_be(key, "nearest, nearest-exact, bilinear or bicubic", *value);
}

void Reader::operator()(const std::string& key, Padding& out, Presence need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  if (json::is_integer(*value)) {
    out = value->get<std::int64_t>();
    return;
  }
  if (!value->is_array() || value->empty() || value->size() == 3 || value->size() > 4)
    return must_be(key, "a whole number or a list of 1, 2 or 4 (left, top, right, bottom)", *value);
  if (!are_integers(key, *value)) return;
  const auto at = [&](std::size_t i) { return (*value)[i % value->size()].get<std::int64_t>(); };
  out = {at(0), at(1), at(2), at(3)};
}

void Reader::operator()(const std::string& key, PaddingMode& out, Presence need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  for (const PaddingMode each :
       {PaddingMode::constant, PaddingMode::edge, PaddingMode::reflect, PaddingMode::symmetric}) {
    if (*value != to_string(each)) continue;
    out = each;
    return;
  }
  must_be(key, "constant, edge, reflect or symmetric", *value);
}

void Reader::operator()(const std::string& key, const Fill& out, Presence need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  if (value->is_number()) {
    out.values = {value->get<double>()};
  } else if (!value->is_array() || value->empty() || value->size() > 4) {
    must_be(key, "a number or a list of 1 to 4 numbers", *value);
  } else if (are_numbers(key, *value)) {
    out.values = value->get<std::vector<double>>();
  }
}

bool Reader::are_integers(const std::string& key, const Json& list) {
  bool are_integers = true;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (json::is_integer(list[i])) continue;
    must_be(key + "[" + std::to_string(i) + "]", "a whole number", list[i]);
    are_integers = false;
  }
  return are_integers;
}

void Reader::operator()(const std::string& key, AutoAugmentPolicy& out, Presence need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  for (const AutoAugmentPolicy each :
       {AutoAugmentPolicy::imagenet, AutoAugmentPolicy::cifar10, AutoAugmentPolicy::svhn}) {
    if (*value != to_string(each)) continue;
    out = each;
    return;
  }
  must_be(key, "imagenet, cifar10 or svhn", *value);
}

void Reader::operator()(const std::string& key, DType& out, Presence need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  if (*value != "float32") return must_be(key, "\"float32\"", *value);
  out = DType::float32;
}

std::optional<Reader::OneOrTwo> Reader::find_sides(const std::string& key, Presence need,
                                                   const char* what) {
  const Json* value = find(key, need);
  if (value == nullptr) return std::nullopt;
  if (json::is_integer(*value))
    return OneOrTwo{true, value->get<std::int64_t>(), value->get<std::int64_t>()};
  if (!value->is_array() || value->empty() || value->size() > 2) {
    must_be(key, what, *value);
    return std::nullopt;
  }
  if (!are_integers(key, *value)) return std::nullopt;
  const auto first = value->front().get<std::int64_t>();
  return OneOrTwo{value->size() == 1, first, value->back().get<std::int64_t>()};
}

void Reader::operator()(const std::string& key, Size& out, Presence need) {
  const auto sides = find_sides(key, need, "a whole number or [height, width]");
  if (sides) out = {sides->first, sides->second};
}

void Reader::operator()(const std::string& key, ResizedSize& out, Presence need) {
  std::int64_t max_size = 0;
  if (const Json* value = find("max_size", Presence::optional)) {
    if (!json::is_integer(*value) || value->get<std::int64_t>() < 1)
      return must_be("max_size", "a whole number of 1 or more", *value);
    max_size = value->get<std::int64_t>();
    need = Presence::optional;
  }
  const auto sides =
      find_sides(key, need, "[height, width] or a whole number, the length of the shorter side");
  if (sides)
    out = sides->is_one ? ResizedSize(sides->first) : ResizedSize(sides->first, sides->second);
  out.max_size = max_size;
}

void Reader::operator()(const std::string& key, const KernelSize& out, Presence need) {
  const auto sides = find_sides(key, need, "a whole number");
  if (!sides) return;
  out.side = sides->first;
  if (sides->first == sides->second) return;
  problems().push_back(full_path(key) + " is " + std::to_string(sides->first) + " and " +
                       std::to_string(sides->second) + "; the two must be equal");
}

void Reader::operator()(const std::string& key, const Weights& out, Presence need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  if (!value->is_array() || value->empty())
    return must_be(key, "a list of numbers, one for each transform", *value);
  if (are_numbers(key, *value)) out.values = value->get<std::vector<double>>();
}

void Reader::operator()(const std::string& key, std::vector<NamedOp>& out, Presence need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  if (!value->is_array()) return must_be(key, "a list", *value);
  read_transforms(*value, full_path(key), out, problems());
}

void Reader::operator()(const std::string& key, const Pair& out, Presence need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  if (value->is_number() && out.one != OneNumber::nothing) return read_one(key, *value, out);
  const char* what =
      out.one == OneNumber::nothing ? "a list of 2 numbers" : "a number or a list of 2 numbers";
  if (!value->is_array() || value->size() != 2) return must_be(key, what, *value);
  if (are_numbers(key, *value)) out.values = value->get<std::array<double, 2>>();
}

void Reader::read_one(const std::string& key, const Json& value, const Pair& out) {
  const auto number = value.get<double>();
  if (out.one == OneNumber::itself) {
    out.values = {number, number};
  } else if (number < 0) {
    must_be(key, "a number of 0 or more, or a list of 2 numbers", value);
  } else if (out.one == OneNumber::around_zero) {
    out.values = {-number, number};
  } else {
    out.values = {std::max(0.0, 1 - number), 1 + number};
  }
}

void Reader::operator()(const std::string& key, const Shear& out, Presence need) {
  const Json* value = find(key, need);
  if (value == nullptr) return;
  std::array<double, 2> along_x = {0, 0};
  const bool is_list = value->is_array() && (value->size() == 2 || value->size() == 4);
  if (!is_list && !value->is_number())
    return must_be(key, "a number or a list of 2 or 4 numbers", *value);
  if (!is_list) {
    read_one(key, *value, {along_x, OneNumber::around_zero});
  } else if (!are_numbers(key, *value)) {
    return;
  } else if (value->size() == 4) {
    out.values = value->get<std::array<double, 4>>();
    return;
  } else {
    along_x = value->get<std::array<double, 2>>();
  }
  out.values = {along_x[0], along_x[1], 0, 0};
}

}  // namespace slipstream::chain
