#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "slipstream/core/error.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/op.h"
#include "transforms/best_code.h"
#include "transforms/geometry.h"
#include "transforms/mask_math.h"

namespace slipstream {
namespace {

constexpr std::int64_t kMostBlocks = std::int64_t{1} << 26;

void require_bits(const Shape& shape) {
  if (shape[0] * blocks_of_row(shape[1]) <= kMostBlocks) return;
  throw UnfitSample("random_mask: the image is " + std::to_string(shape[0]) + " x " +
                    std::to_string(shape[1]) +
                    " pixels; it may have at most 2^26 blocks of eight pixels (each row starts a "
                    "new block); resize it before");
}

/// Rows of the mask as bits, one byte per block of pixels. An empty byte on either side lets grow()
/// read neighbors without a branch.
class MaskRows {
 public:
  MaskRows(const RandomMask& op, const RandomWords& key, const Shape& shape, Scratch& scratch)
      : key_(key),
        threshold_(op.threshold()),
        dilates_(op.dilate),
        height_(shape[0]),
        blocks_(blocks_of_row(shape[1])),
        last_(0xFFU >> (blocks_ * kMaskPixels - shape[1])) {
    constexpr std::int64_t kRows = 5;
    auto* memory = scratch.reset(DType::uint8, {kRows, blocks_ + 2}).as<std::uint8_t>();
    std::fill_n(memory, kRows * (blocks_ + 2), std::uint8_t{0});
    for (auto* row : {&above_, &here_, &below_, &grown_, &nothing_}) {
      *row = memory + 1;
      memory += blocks_ + 2;
    }
    if (height_ > 0) draw(0, below_);
  }

  /// Returns row `y`.
  /// REQUIRES: it is called for y = 0, 1, 2 and so on
  const std::uint8_t* row(std::int64_t y) {
    std::swap(above_, here_);
    std::swap(here_, below_);
    const bool has_below = y + 1 < height_;
    if (has_below) draw(y + 1, below_);
    if (!dilates_) return here_;
    grow(has_below ? below_ : nothing_);
    return grown_;
  }

 private:
  void draw(std::int64_t y, std::uint8_t* row) const {
    const auto start = static_cast<std::uint32_t>(y * blocks_);
    with_best_code([=, this] {
      // Copied to local variables: a store of bytes may alias any object, so the compiler would
      // reload members in every iteration.
      const RandomWords key = key_;
      const std::uint32_t threshold = threshold_;
      const std::uint32_t first = start;
      const auto count = static_cast<std::uint32_t>(blocks_);
      std::uint8_t* __restrict to = row;
      for (std::uint32_t i = 0; i < count; ++i) {
        to[i] = static_cast<std::uint8_t>(mask_bits(mask_words(key, first + i), threshold));
      }
    });
    row[blocks_ - 1] = static_cast<std::uint8_t>(row[blocks_ - 1] & last_);
  }

  void grow(const std::uint8_t* below) const {
    with_best_code([=, this] {
      const std::uint8_t* above = above_;
      const std::uint8_t* here = here_;
      const std::uint8_t* under = below;
      std::uint8_t* __restrict to = grown_;
      const std::int64_t count = blocks_;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint32_t across = grown_bits(here[i - 1], here[i], here[i + 1]);
        to[i] = static_cast<std::uint8_t>(across | above[i] | under[i]);
      }
    });
  }

  RandomWords key_;
  std::uint32_t threshold_;
  bool dilates_;
  std::int64_t height_;
  std::int64_t blocks_;
  std::uint32_t last_;  // mask for the valid pixels of a row's last block
  std::uint8_t* above_ = nullptr;
  std::uint8_t* here_ = nullptr;
  std::uint8_t* below_ = nullptr;
  std::uint8_t* grown_ = nullptr;
  std::uint8_t* nothing_ = nullptr;
};

/// Copies a row and sets masked pixels to 0, several blocks at a time.
template <int C, typename T>
void keep_others(const std::uint8_t* row, const T* from, T* to, std::int64_t width) {
  // Bits are cleared without a branch, because the branch would be mispredicted for one pixel in
  // three.
  using Bits = std::conditional_t<sizeof(T) == 1, std::uint8_t, std::uint32_t>;
  constexpr std::int64_t kBlocks = 32;
  constexpr std::int64_t kPixels = kBlocks * kMaskPixels;
  with_best_code([=] {
    std::array<std::uint8_t, kPixels> masked;
    for (std::int64_t at = 0; at < width; at += kPixels) {
      const std::int64_t count = std::min(kPixels, width - at);
      const std::uint8_t* bits = row + at / kMaskPixels;
      for (std::int64_t i = 0; i < blocks_of_row(count); ++i) {
        for (int k = 0; k < kMaskPixels; ++k) {
          masked[i * kMaskPixels + k] = static_cast<std::uint8_t>(bits[i] >> k & 1);
        }
      }
      const T* __restrict in = from + at * C;
      T* __restrict out = to + at * C;
      for (std::int64_t x = 0; x < count; ++x) {
        // 1 becomes 0, and 0 becomes all ones.
        const auto all_bits = static_cast<Bits>(static_cast<Bits>(masked[x]) - 1U);
        for (int c = 0; c < C; ++c) {
          out[x * C + c] =
              std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(in[x * C + c]) & all_bits));
        }
      }
    }
  });
}

template <typename T>
auto keep_others_for(std::int64_t channels) {
  constexpr std::array kAll = {keep_others<1, T>, keep_others<2, T>, keep_others<3, T>,
                               keep_others<4, T>};
  return kAll.at(static_cast<std::size_t>(channels - 1));
}

template <typename T>
void mask_image(MaskRows& rows, const ConstArray& in, const MutableArray& out) {
  const auto keep = keep_others_for<T>(in.shape[2]);
  const std::int64_t values = in.shape[1] * in.shape[2];
  const T* from = in.as<T>();
  T* to = out.as<T>();
  for (std::int64_t y = 0; y < in.shape[0]; ++y, from += values, to += values) {
    keep(rows.row(y), from, to, in.shape[1]);
  }
}

}  // namespace

std::uint32_t RandomMask::threshold() const {
  return static_cast<std::uint32_t>(std::floor(p * 65'536 + 0.5));
}

void RandomMask::validate() const { require_probability(kName, p); }

FieldSpec RandomMask::output(const FieldSpec& in) const {
  require_channels(kName, in);
  return in;
}

RandomMask::Drawn RandomMask::draw(const RandomKey& key, const Shape& shape) const {
  require_bits(shape);
  return {random_words(key)};
}

void RandomMask::apply(const Drawn& drawn, FieldKind, ConstArray in, MutableArray out,
                       Scratch& scratch) const {
  require_bits(in.shape);
  if (in.shape.elements() == 0) return;
  MaskRows rows(*this, drawn.key, in.shape, scratch);
  if (in.dtype == DType::uint8) return mask_image<std::uint8_t>(rows, in, out);
  mask_image<float>(rows, in, out);
}

}  // namespace slipstream
