#include "datasets/npy_header.h"

#include <algorithm>
#include <string_view>

#include "core/bytes.h"
#include "datasets/pax.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using namespace std::string_view_literals;

[[noreturn]] void fail(const std::string& what) {
  throw Error("broken .npy header: " + what + "; save the array again");
}

/// Reads the Python dictionary of a header.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : text_(text) {}

  /// Skips blanks and consumes `token`. Returns false if something else follows.
  bool take(std::string_view token) {
    text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n"), text_.size()));
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  void need(std::string_view token) {
    if (!take(token)) fail("'" + std::string(token) + "' is missing");
  }
  std::string quoted() {
    const std::string_view quote = take("'") ? "'" : "\"";
    if (quote == "\"") need(quote);
    const std::size_t end = text_.find(quote);
    if (end == std::string_view::npos) fail("a string has no closing quote");
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }
  std::int64_t number() {
    take("");
    const std::size_t digits = std::min(text_.find_first_not_of("0123456789"), text_.size());
    const auto value = decimal_number(text_.substr(0, digits));
    if (!value) fail("a dimension is not a number");
    text_.remove_prefix(digits);
    take("L");
    return static_cast<std::int64_t>(*value);
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    need("(");
    while (!take(")")) {
      values.push_back(number());
      if (take(")")) break;
      need(",");
    }
    return values;
  }
  /// Skips the field list of a structured dtype. It may contain brackets and strings.
  void skip_list() {
    std::size_t depth = 0;
    do {
      if (take("[") || take("(")) {
        ++depth;
      } else if (take("]") || take(")")) {
        --depth;
      } else if (text_.starts_with('\'') || text_.starts_with('"')) {
        quoted();
      } else if (text_.empty()) {
        fail("a list does not end");
      } else {
        text_.remove_prefix(1);
      }
    } while (depth > 0);
  }
  bool starts_list() { return take("") && text_.starts_with('['); }
  bool is_at_end() { return take("") && text_.empty(); }

 private:
  std::string_view text_;
};

NpyHeader parse_dictionary(std::string_view text) {
  HeaderText header(text);
  NpyHeader result;
  bool has_type = false, has_order = false, has_shape = false;
  header.need("{");
  while (!header.take("}")) {
    const std::string key = header.quoted();
    header.need(":");
    if (key == "descr") {
      has_type = true;
      if (header.starts_list()) {
        header.skip_list();
      } else {
        result.type = header.quoted();
      }
    } else if (key == "fortran_order") {
      has_order = true;
      result.is_fortran = header.take("True");
      if (!result.is_fortran) header.need("False");
    } else if (key == "shape") {
      has_shape = true;
      result.shape = header.tuple();
    } else {
      fail("it has an unknown key '" + printable_name(key) + "'");
    }
    if (header.take("}")) break;
    header.need(",");
  }
  if (!has_type || !has_order || !has_shape) fail("it lacks descr, fortran_order or shape");
  if (!header.is_at_end()) fail("there is text after the dictionary");
  return result;
}

DType parse_dtype(const std::string& type) {
  if (type == "|u1" || type == "<u1") return DType::uint8;
  if (type == "<i4") return DType::int32;
  if (type == "<i8") return DType::int64;
  if (type == "<f4") return DType::float32;
  if (type.empty()) throw Error("it is a structured array; save each part in a separate file");
  const std::string known = "u1 (uint8), i4, i8 and f4 are supported";
  if (type == ">i4" || type == ">i8" || type == ">f4") {
    throw Error("it is big-endian ('" + type + "'); save array.astype('<" + type.substr(1) +
                "'); " + known);
  }
  const char kind = type.size() > 1 ? type[1] : ' ';
  const std::string held = kind == 'b'                  ? "uint8"
                           : kind == 'i' || kind == 'u' ? "int64"
                           : kind == 'f'                ? "float32"
                                                        : "";
  throw Error("its type is '" + printable_name(type) + "'; save " +
              (held.empty() ? "numbers" : "array.astype('" + held + "')") + ": " + known);
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> file) {
  constexpr std::size_t kStart = 8;
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with("\x93NUMPY"sv)) {
    throw Error("it is not a .npy file according to its first bytes; save it with numpy.save");
  }
  if (text.size() < kStart + 4) fail("it ends early");
  const std::uint32_t version = u8_at(file, 6);
  if (version < 1 || version > 3) fail("its version is " + std::to_string(version));
  const std::size_t digits = version == 1 ? 2 : 4;
  std::size_t length = 0;
  for (std::size_t i = digits; i-- > 0;) length = length << 8 | u8_at(file, kStart + i);
  const std::size_t begin = kStart + digits;
  if (length > kMaxNpyHeader - begin) fail("it has " + std::to_string(length) + " bytes");
  if (length > text.size() - begin) fail("it ends early");
  NpyHeader header = parse_dictionary(text.substr(begin, length));
  header.data_at = begin + length;
  return header;
}

NpyForm npy_form(const NpyHeader& header) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 62;
  NpyForm form;
  form.dtype = parse_dtype(header.type);
  if (header.is_fortran && header.shape.size() > 1) {
    throw Error("it is in Fortran order; save numpy.ascontiguousarray(array)");
  }
  if (header.shape.size() > Shape::kMaxRank) {
    throw Error("it has " + std::to_string(header.shape.size()) +
                " dimensions; reshape it to at most four, with samples first");
  }
  form.shape.rank = header.shape.size();
  std::copy(header.shape.begin(), header.shape.end(), form.shape.dims.begin());
  std::size_t bytes = size_bytes(form.dtype);
  for (const std::int64_t dim : header.shape) {
    const auto factor = static_cast<std::size_t>(std::max<std::int64_t>(dim, 1));
    if (bytes > kMaxBytes / factor) throw Error("its shape has too many elements; save it again");
    bytes *= factor;
  }
  return form;
}

std::string npy_header(const NpyForm& form) {
  const char* const type = form.dtype == DType::uint8   ? "|u1"
                           : form.dtype == DType::int32 ? "<i4"
                           : form.dtype == DType::int64 ? "<i8"
                                                        : "<f4";
  return npy_header(type, std::span(form.shape.dims).first(form.shape.rank));
}

std::string npy_header(std::string_view type, std::span<const std::int64_t> shape) {
  constexpr std::size_t kBlock = 64;
  std::string sides;
  for (std::size_t i = 0; i < shape.size(); ++i)
    sides += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  if (shape.size() == 1) sides += ",";
  std::string text =
      "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (" + sides + "), }";
  constexpr std::size_t kAhead = 10;
  text.resize((kAhead + text.size() + kBlock) / kBlock * kBlock - kAhead - 1, ' ');
  text += '\n';
  const auto length = static_cast<std::uint16_t>(text.size());
  std::string header = "\x93NUMPY\x01";
  header += '\0';
  header += static_cast<char>(length & 0xff);
  header += static_cast<char>(length >> 8);
  return header + text;
}

}  // namespace slipstream
