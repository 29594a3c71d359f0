#include "tools/scene.h"

#include <algorithm>
#include <cmath>

#include "tools/scene_classes.h"

namespace slipstream {
namespace {

constexpr std::uint32_t kMinObjects = 1;
constexpr std::uint32_t kMaxObjects = 3;
constexpr float kTintLevels = 12;
constexpr float kNoiseLevels = 10;

struct Object {
  std::uint8_t number = 0;
  float x = 0;
  float y = 0;
  float cosine = 1;
  float sine = 0;
  float radius = 1;
  Color tint;
};

struct Light {
  float level = 1;
  float across = 0;
  float down = 0;
};

float between(RandomStream& random, float low, float high) {
  return low + random.uniform() * (high - low);
}

Color draw_tint(RandomStream& random) {
  Color tint;
  for (float* part : {&tint.red, &tint.green, &tint.blue}) {
    *part = between(random, -kTintLevels, kTintLevels);
  }
  return tint;
}

Object any_object(RandomStream& random, std::int64_t classes) {
  Object object;
  object.number =
      static_cast<std::uint8_t>(1 + random.below(static_cast<std::uint32_t>(classes - 1)));
  object.x = between(random, 0.2f, 0.8f);
  object.y = between(random, 0.2f, 0.8f);
  object.radius = between(random, 0.25f, 0.45f);
  // Computes cosine and sine from the rational parametrization of the unit circle, because the
  // functions of C libraries give different bits on different machines.
  const float t = between(random, -1, 1);
  object.cosine = (1 - t * t) / (1 + t * t);
  object.sine = 2 * t / (1 + t * t);
  object.tint = draw_tint(random);
  return object;
}

struct Scene {
  Object objects[kMaxObjects];
  std::size_t count = 0;
  Object background;
  Light light;

  Scene(RandomStream& random, std::int64_t classes) {
    background.tint = draw_tint(random);
    background.radius = between(random, 1.0f / 24, 1.0f / 12);
    light = {between(random, 0.85f, 1.1f), between(random, -0.25f, 0.25f),
             between(random, -0.25f, 0.25f)};
    count = kMinObjects + random.below(kMaxObjects - kMinObjects + 1);
    for (std::size_t i = 0; i < count; ++i) objects[i] = any_object(random, classes);
  }

  void keep_one(std::uint8_t number) {
    count = number > 0 ? 1 : 0;
    objects[0].number = number;
  }

  /// Returns the class at (x, y), both 0 to 1, and its color there under this light.
  std::uint8_t at(float x, float y, Color& color) const {
    for (std::size_t i = count; i-- > 0;) {
      if (paint(objects[i], x, y, color)) return objects[i].number;
    }
    paint(background, x, y, color);
    return background.number;
  }

 private:
  bool paint(const Object& object, float x, float y, Color& color) const {
    const SceneClass& look = scene_classes()[object.number];
    const float dx = (x - object.x) / object.radius;
    const float dy = (y - object.y) / object.radius;
    const float u = dx * object.cosine + dy * object.sine;
    const float v = dy * object.cosine - dx * object.sine;
    if (!look.covers(u, v)) return false;
    const Color& own = look.is_accent(u, v) ? look.accent : look.base;
    const float shine = light.level * (1 + light.across * (x - 0.5f) + light.down * (y - 0.5f));
    color = {(own.red + object.tint.red) * shine, (own.green + object.tint.green) * shine,
             (own.blue + object.tint.blue) * shine};
    return true;
  }
};

std::uint8_t to_level(float value) {
  return static_cast<std::uint8_t>(std::floor(std::clamp(value, 0.0f, 255.0f) + 0.5f));
}

/// Noise for each level of the image: one random byte each, sixteen from each block.
class Noise {
 public:
  explicit Noise(const RandomKey& key) : key_(key) {}
  float next() {
    if (used_ % 16 == 0) block_ = key_.block(used_ / 16);
    const std::uint32_t byte = block_[used_ % 16 / 4] >> (used_ % 4 * 8) & 0xff;
    ++used_;
    return (static_cast<float>(byte) - 127.5f) / 127.5f * kNoiseLevels;
  }

 private:
  RandomKey key_;
  PhiloxBlock block_{};
  std::uint32_t used_ = 0;
};

void paint(const Scene& scene, const RandomKey& key, std::int64_t size, HostArray& image,
           HostArray& mask) {
  RandomKey noise_key = key;
  ++noise_key.operation;
  Noise noise(noise_key);
  auto* levels = image.reset(DType::uint8, {size, size, 3}).as<std::uint8_t>();
  auto* numbers = mask.reset(DType::uint8, {size, size}).as<std::uint8_t>();
  const float pixel = 1.0f / static_cast<float>(size);
  for (std::int64_t row = 0; row < size; ++row) {
    const float y = (static_cast<float>(row) + 0.5f) * pixel;
    for (std::int64_t column = 0; column < size; ++column) {
      const float x = (static_cast<float>(column) + 0.5f) * pixel;
      Color color;
      *numbers++ = scene.at(x, y, color);
      *levels++ = to_level(color.red + noise.next());
      *levels++ = to_level(color.green + noise.next());
      *levels++ = to_level(color.blue + noise.next());
    }
  }
}

}  // namespace

void draw_scene(const RandomKey& key, std::int64_t size, std::int64_t classes, HostArray& image,
                HostArray& mask) {
  RandomStream random(key);
  paint(Scene(random, classes), key, size, image, mask);
}

void draw_object(const RandomKey& key, std::int64_t size, std::uint8_t number, HostArray& image,
                 HostArray& mask) {
  RandomStream random(key);
  // Always with all classes, so that neither the class nor the number of classes changes the rest
  // of a scene.
  Scene scene(random, kSceneClasses);
  scene.keep_one(number);
  paint(scene, key, size, image, mask);
}

void to_gray(const ConstArray& rgb, HostArray& gray) {
  const MutableArray out = gray.reset(DType::uint8, {rgb.shape[0], rgb.shape[1]});
  const auto* in = rgb.as<std::uint8_t>();
  for (std::size_t i = 0; i < out.bytes(); ++i, in += 3) {
    out.as<std::uint8_t>()[i] =
        static_cast<std::uint8_t>((in[0] * 299 + in[1] * 587 + in[2] * 114 + 500) / 1000);
  }
}

}  // namespace slipstream
