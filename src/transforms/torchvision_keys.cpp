#include "transforms/torchvision_keys.h"

#include <array>
#include <string>
#include <string_view>

#include "core/json_fields.h"
#include "transforms/parameters.h"

namespace slipstream::chain {
namespace {

using json::Json;
using json::Problems;

struct TorchvisionKey {
  std::string_view op;
  const char* key;
  const char* neutral;   ///< default value, as JSON
  bool is_read = false;  ///< true if the operation here reads other values
  const char* remedy = "";
};

constexpr const char* kClassesOfData =
    ": leave it out, because the number of classes is that of the data or of --classes";

constexpr std::array kKeys = {
    TorchvisionKey{Resize::kName, "size", "null", true},
    TorchvisionKey{Resize::kName, "max_size", "null", true},
    TorchvisionKey{RandomCrop::kName, "padding", "null", true},
    TorchvisionKey{RandomCrop::kName, "fill", "null", true},
    TorchvisionKey{Pad::kName, "fill", "null", true},
    TorchvisionKey{RandomRotation::kName, "expand", "false"},
    TorchvisionKey{RandomRotation::kName, "center", "null"},
    TorchvisionKey{RandomAffine::kName, "translate", "null", true},
    TorchvisionKey{RandomAffine::kName, "scale", "null", true},
    TorchvisionKey{RandomAffine::kName, "shear", "null", true},
    TorchvisionKey{RandomAffine::kName, "center", "null"},
    TorchvisionKey{ColorJitter::kName, "brightness", "null", true},
    TorchvisionKey{ColorJitter::kName, "contrast", "null", true},
    TorchvisionKey{ColorJitter::kName, "saturation", "null", true},
    TorchvisionKey{ColorJitter::kName, "hue", "null", true},
    TorchvisionKey{RandomChoice::kName, "p", "null", true},
    TorchvisionKey{RandAugment::kName, "fill", "null", true},
    TorchvisionKey{TrivialAugmentWide::kName, "fill", "null", true},
    TorchvisionKey{AutoAugment::kName, "fill", "null", true},
    TorchvisionKey{RandomErasing::kName, "inplace", "false"},
    TorchvisionKey{Normalize::kName, "inplace", "false"},
    TorchvisionKey{MixUp::kName, "num_classes", "null", false, kClassesOfData},
    TorchvisionKey{MixUp::kName, "labels_getter", R"("default")"},
    TorchvisionKey{CutMix::kName, "num_classes", "null", false, kClassesOfData},
    TorchvisionKey{CutMix::kName, "labels_getter", R"("default")"},
};

void leave_out(const TorchvisionKey& known, Json& transform, const std::string& path,
               Problems& problems) {
  const auto value = transform.find(known.key);
  if (value == transform.end()) return;
  const bool is_neutral = *value == json::parsed(known.neutral, "a neutral value");
  if (known.is_read && !is_neutral) return;
  if (!is_neutral)
    problems.push_back(path + ": " + std::string(known.op) + ": \"" + known.key + "\" is " +
                       json::shown(*value) +
                       "; torchvision supports that value, this program supports only " +
                       known.neutral + known.remedy);
  transform.erase(value);
}

/// Processes the list "transforms" of the document or of a container.
void leave_out_in(Json& container, const std::string& prefix, Problems& problems) {
  if (!container.is_object() || !container.contains("transforms")) return;
  Json& transforms = container["transforms"];
  for (std::size_t i = 0; transforms.is_array() && i < transforms.size(); ++i) {
    Json& transform = transforms[i];
    const std::string path = prefix + "transforms[" + std::to_string(i) + "]";
    leave_out_in(transform, path + ".", problems);
    if (!transform.is_object() || !transform.contains("op")) continue;
    for (const TorchvisionKey& known : kKeys)
      if (transform["op"] == known.op) leave_out(known, transform, path, problems);
  }
}

}  // namespace

void leave_out_torchvision_keys(Json& document, Problems& problems) {
  leave_out_in(document, "", problems);
}

}  // namespace slipstream::chain
