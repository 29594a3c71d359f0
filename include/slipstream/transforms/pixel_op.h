#pragma once

#include <concepts>
#include <cstring>
#include <type_traits>

#include "slipstream/transforms/op.h"
#include "slipstream/transforms/pixel.h"

namespace slipstream {

/// Defines `struct NAME BODY`, a pixel function: the computation that a user-defined operation
/// applies to one pixel. The compiler of the program builds its CPU version. At run time, the same
/// text is compiled into the GPU kernels of the chain. Use it at namespace scope:
///
///   SLIPSTREAM_PIXEL_FUNCTION(Solarize, {
///     float threshold;
///     float operator()(float value) const { return value < threshold ? value : 1.0F - value; }
///   });
///
/// The members are its parameters: trivially copyable, 1,024 bytes at most, aligned to 16 bytes at
/// most. One of these functions computes a pixel (pixel.h has Pixel<C>):
///   float operator()(float value) const                          for each channel separately
///   template <int C> Pixel<C> operator()(Pixel<C> pixel) const   for all channels of a pixel
/// The second one may also be a non-template for pixels of one C. Values are float32. For uint8
/// images they are level / 255.
///
/// The text must be self-contained. On a GPU it can use its own members, the types of <cstdint>,
/// everything in pixel.h (also without `slipstream::`), and from the standard library std::abs,
/// ceil, clamp, copysign, floor, fma, isnan, max, min, round, sqrt and trunc. It cannot contain
/// preprocessor directives, and the program's macros are not expanded for the GPU. It must not keep
/// state, and it must work with parameters whose bits are all 0.
///
/// A text that uses only these functions, + - * / and casts of values that fit has the same bits on
/// CPU and GPU, except for the bits of NaNs. Neither compiler contracts a * b + c to an fma unless
/// the text uses std::fma: programs that link this library are compiled with -ffp-contract=off.
/// -ffast-math breaks this guarantee. expf, powf, sinf and similar functions can be called by these
/// names, without std::, but their last bits differ.
#define SLIPSTREAM_PIXEL_FUNCTION(name, ...)                                                  \
  struct name __VA_ARGS__;                                                                    \
  [[maybe_unused]] constexpr slipstream::PixelFunctionText pixel_function_text(const name*) { \
    return {#name, "struct " #name " " #__VA_ARGS__ ";"};                                     \
  }                                                                                           \
  static_assert(slipstream::PixelFunction<name>,                                              \
                "a pixel function has trivially copyable parameters, at most 1,024 bytes of " \
                "them, and float operator()(float) const or Pixel<C> operator()(Pixel<C>) const")

/// The name and the text of a pixel function.
struct PixelFunctionText {
  std::string_view name;
  std::string_view definition;
};

/// True if the pixel function T takes pixels of C channels.
template <typename T, int C>
inline constexpr bool kTakesPixels = requires(const T& function, Pixel<C> pixel) {
  { function(pixel) } -> std::same_as<Pixel<C>>;
}
|| requires(const T& function, float value) {
  { function(value) } -> std::same_as<float>;
};

/// A type that SLIPSTREAM_PIXEL_FUNCTION defined, with parameters and a call as described there.
template <typename T>
concept PixelFunction = std::is_trivially_copyable_v<T> && sizeof(T) <= 1024 && alignof(T) <= 16 &&
                        (kTakesPixels<T, 1> || kTakesPixels<T, 2> || kTakesPixels<T, 3> ||
                         kTakesPixels<T, 4>)&&requires(const T* function) {
  { pixel_function_text(function) } -> std::same_as<PixelFunctionText>;
};

/// Returns the image field `in` with the dtype float32. `takes` says which of 1 to 4 channels the
/// operation `name` supports. Throws Refused for another number of channels and for images that are
/// neither uint8 nor float32.
FieldSpec changed_field(std::string_view name, const FieldSpec& in, const bool (&takes)[4]);

/// Applies `function` to `pixels` pixels of C channels, uint8 or float32, and writes the results as
/// float32.
template <int C, typename T, typename Function>
void change_pixels(const Function& function, const T* from, float* to, std::size_t pixels) {
  for (std::size_t i = 0; i < pixels * C; i += C) {
    Pixel<C> pixel;
    for (int c = 0; c < C; ++c) {
      const auto value = static_cast<float>(from[i + static_cast<std::size_t>(c)]);
      pixel.value[c] = std::is_same_v<T, std::uint8_t> ? from_level(value) : value;
    }
    pixel = changed(function, pixel);
    for (int c = 0; c < C; ++c) to[i + static_cast<std::size_t>(c)] = pixel.value[c];
  }
}

/// Applies `function` to an image of C channels, uint8 or float32, and writes the result as
/// float32. Does nothing if the function does not take pixels of C channels.
template <PixelFunction Function, int C>
void change_channels(const Function& function, const ConstArray& in, float* to) {
  if constexpr (kTakesPixels<Function, C>) {
    const auto pixels = static_cast<std::size_t>(in.shape[0] * in.shape[1]);
    if (in.dtype == DType::uint8) {
      change_pixels<C>(function, in.as<std::uint8_t>(), to, pixels);
    } else {
      change_pixels<C>(function, in.as<float>(), to, pixels);
    }
  }
}

/// The members that operations with a pixel function share.
template <PixelFunction Function>
struct ChangesPixels {
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const {
    return changed_field(text().name, in,
                         {kTakesPixels<Function, 1>, kTakesPixels<Function, 2>,
                          kTakesPixels<Function, 3>, kTakesPixels<Function, 4>});
  }

 protected:
  static constexpr PixelFunctionText text() {
    return pixel_function_text(static_cast<const Function*>(nullptr));
  }
  static DeviceFunction on_device() {
    return {text().name, text().definition, sizeof(Function), alignof(Function), {}};
  }
  static void change(const Function& function, ConstArray in, MutableArray out) {
    auto* to = out.as<float>();
    switch (in.shape[2]) {
      case 1:
        return change_channels<Function, 1>(function, in, to);
      case 2:
        return change_channels<Function, 2>(function, in, to);
      case 3:
        return change_channels<Function, 3>(function, in, to);
      default:
        return change_channels<Function, 4>(function, in, to);
    }
  }
};

/// An operation (op.h) that applies one pixel function, with the same parameters for all samples,
/// to images: .transform("solarize", PixelOp{Solarize{0.5F}}). Images are uint8 or float32, height
/// x width x channels; the result is float32. In the GPU's kernels the parameters are constants.
template <PixelFunction Function>
struct PixelOp : ChangesPixels<Function> {
  static constexpr std::string_view kName = ChangesPixels<Function>::text().name;
  struct Drawn {};

  explicit PixelOp(const Function& with) : function(with) {}

  Function function;

  void validate() const {}
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {}; }
  void apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
    this->change(function, in, out);
  }
  DeviceFunction device_function() const {
    DeviceFunction result = this->on_device();
    result.fixed.resize(sizeof(Function));
    std::memcpy(result.fixed.data(), &function, sizeof(Function));
    return result;
  }
};

/// The base of an operation whose draw() returns a pixel function for each sample. The operation
/// adds kName, validate(), is_random() and draw(). Images are uint8 or float32, height x width x
/// channels; the result is float32.
///
///   struct RandomSolarize : DrawnPixelOp<Solarize> {
///     static constexpr std::string_view kName = "random_solarize";
///     void validate() const {}
///     bool is_random() const { return true; }
///     Solarize draw(const RandomKey& key, const Shape&) const {
///       return {RandomStream(key).uniform()};
///     }
///   };
template <PixelFunction Function>
struct DrawnPixelOp : ChangesPixels<Function> {
  using Drawn = Function;

  void apply(const Function& drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
    this->change(drawn, in, out);
  }
  DeviceFunction device_function() const { return this->on_device(); }
};

}  // namespace slipstream
