#include "datasets/shard_samples.h"

#include <algorithm>
#include <array>

#include "core/fingerprint.h"
#include "core/text.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

bool take_suffix(std::string& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.resize(text.size() - suffix.size());
  return true;
}

std::optional<ShardField> find_field(std::string_view extension) {
  const bool has_dot = extension.find('.') != std::string_view::npos;
  if (!has_dot && is_image_name("KEY." + std::string(extension))) return ShardField::image;
  if (extension == "cls") return ShardField::label;
  if (extension == "seg.png" || extension == "mask.png") return ShardField::mask;
  return std::nullopt;
}

bool has_parent_part(const std::string& name) {
  return ("/" + name + "/").find("/../") != std::string::npos;
}

void check_member(const TarMember& member) {
  const std::string what = "member '" + printable_name(member.name) + "' ";
  if (member.kind == TarMember::Kind::link) {
    throw Error(what +
                "is a link; write the archive with its files (--dereference "
                "--hard-dereference)");
  }
  if (member.name.starts_with('/')) {
    throw Error(what + "has an absolute name; write the archive with relative ones");
  }
  if (has_parent_part(member.name)) {
    throw Error(what + "has a name with '..'; write the archive with names below one folder");
  }
}

[[noreturn]] void throw_twice(const std::string& key, const std::string& first,
                              const std::string& second) {
  throw Error("sample '" + printable_name(key) + "' occurs twice, with '" + printable_name(first) +
              "' and again with '" + printable_name(second) +
              "'; write each once, members of a sample next to each other (tar --sort=name)");
}

}  // namespace

std::optional<ShardName> parse_shard_name(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  const std::size_t base = name.rfind('/') + 1;  // npos + 1 is 0
  const std::size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  std::string extension = lower_case(std::string(name.substr(dot + 1)));
  ShardName parsed;
  if (take_suffix(extension, ".zst")) {
    parsed.compression = Compression::zstd;
  } else if (take_suffix(extension, ".lz4")) {
    parsed.compression = Compression::lz4;
  }
  const std::optional<ShardField> field = find_field(extension);
  if (!field) return std::nullopt;
  parsed.key = name.substr(0, dot);
  parsed.field = *field;
  return parsed;
}

std::optional<ShardSample> ShardSamples::next() {
  if (!std::exchange(is_started_, true)) advance();
  if (!name_) {
    check_keys();
    return std::nullopt;
  }
  const std::string key = name_->key;
  ShardSample sample;
  ShardFieldSet fields;
  do {
    take(sample, fields);
  } while (advance() && name_->key == key);
  check_fields(fields, key);
  // A hash and an offset take 16 bytes per sample, however long the keys are. The offset allows
  // reading the name again when two hashes are equal.
  keys_.emplace_back(fingerprint(key.data(), key.size()), sample.header);
  return sample;
}

bool ShardSamples::advance() {
  name_.reset();
  while (std::optional<TarMember> member = reader_.next()) {
    if (member->kind == TarMember::Kind::other) continue;
    name_ = parse_shard_name(member->name);
    if (!name_) {
      count_unread(*member);
      continue;
    }
    member_ = std::move(*member);
    check_member(member_);
    return true;
  }
  return false;
}

void ShardSamples::count_unread(const TarMember& member) {
  const std::string_view name = member.name;
  const std::string_view last = name.substr(name.rfind('/') + 1);  // npos + 1 is 0
  if (last.starts_with('.')) {
    if (skipped_.hidden++ == 0) skipped_.first_hidden = member.header;
    return;
  }
  if (unread_.add(last)) return;
  if (skipped_.members++ == 0) skipped_.first = member.header;
  if (!is_image_name(last)) return;
  if (skipped_.images++ == 0) skipped_.first_image = member.header;
}

bool ShardSamples::has_more_members(const std::string& key) {
  const auto is_same = [&](const auto& known) {
    return known.first == fingerprint(key.data(), key.size());
  };
  if (std::any_of(keys_.begin(), keys_.end(), is_same)) return true;
  while (name_) {
    if (name_->key == key) return true;
    advance();
  }
  return false;
}

void ShardSamples::take(ShardSample& sample, ShardFieldSet& fields) {
  ShardMember& member = sample.members[static_cast<std::size_t>(name_->field)];
  if (fields.has(name_->field)) {
    ShardFieldSet twice;
    twice.add(name_->field);
    throw Error("member '" + printable_name(member_.name) + "' is a second " + twice.text() +
                " of sample '" + printable_name(name_->key) + "'; keep one of them");
  }
  fields.add(name_->field);
  member = {member_.offset, member_.size, name_->compression};
  if (name_->field == ShardField::image) sample.header = member_.header;
}

void ShardSamples::check_fields(ShardFieldSet fields, const std::string& key) {
  const bool is_odd = !fields.has(ShardField::image) || (!keys_.empty() && fields != fields_);
  // Fields that differ are most likely members that are not adjacent. Reading on gives the better
  // message, and costs nothing where all is well.
  if (is_odd && has_more_members(key)) {
    throw Error("the members of sample '" + printable_name(key) +
                "' are not next to each other in the archive; write it again with their names "
                "sorted (tar --sort=name)");
  }
  if (!fields.has(ShardField::image)) {
    const std::string unread = unread_.text("member");
    throw Error("sample '" + printable_name(key) + "' has " + fields.text() + ", but no image (" +
                kImageNames + "); add it, or remove the sample" +
                (unread.empty() ? "" : "; before that, " + unread));
  }
  if (keys_.empty()) {
    fields_ = fields;
    first_key_ = key;
  }
  if (fields == fields_) return;
  throw Error("sample '" + printable_name(key) + "' has " + fields.text() + ", but sample '" +
              printable_name(first_key_) + "' has " + fields_.text() +
              "; every sample needs the same, its members next to each other (tar --sort=name)");
}

void ShardSamples::check_keys() {
  std::sort(keys_.begin(), keys_.end());
  for (std::size_t i = 1; i < keys_.size(); ++i) {
    if (keys_[i - 1].first != keys_[i].first) continue;
    const std::string first = tar_member_name(shard_, keys_[i - 1].second);
    const std::string second = tar_member_name(shard_, keys_[i].second);
    const auto first_name = parse_shard_name(first);
    const auto second_name = parse_shard_name(second);
    if (!first_name || !second_name || first_name->key != second_name->key) continue;
    throw_twice(first_name->key, first, second);
  }
}

}  // namespace slipstream
