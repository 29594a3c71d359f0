#include "cli/option_lists.h"

#include "cli/option_text.h"
#include "core/number_text.h"
#include "core/text.h"
#include "slipstream/codecs/image.h"
#include "slipstream/core/error.h"
#include "slipstream/engine/optimizer.h"

namespace slipstream {
namespace {

std::string problem_of_size(const OptionValue& value) {
  try {
    static_cast<void>(named_size("", std::get<std::string>(value)));
    return "";
  } catch (const Refused& refused) {
    return refused.what();
  }
}

std::string problem_of_color(const OptionValue& value) {
  try {
    static_cast<void>(color_named(std::get<std::string>(value)));
    return "";
  } catch (const Refused& refused) {
    return refused.what();
  }
}

std::string problem_of_kinds(const OptionValue& value) {
  try {
    static_cast<void>(no_weight_decay_on(split(std::get<std::string>(value), ',')));
    return "";
  } catch (const Refused& refused) {
    return refused.what();
  }
}

OptionList in_group(const std::string& group, OptionList list) {
  for (Option& option : list) option.group = group;
  return list;
}

}  // namespace

Option classes_option() {
  return {"classes", "Number of classes, if the data set does not state it", 10, {}, "Data"};
}

Option image_size_option(const std::string& help) {
  return {"image-size", help, 256, no_less_than(1), "Images"};
}

Option transforms_option() {
  return {"transforms",
          "A file of transforms, or their JSON, instead of a resize. They decide the size of the "
          "images unless --image-size is given",
          "",
          {},
          "Images"};
}

OptionList data_options() {
  return in_group(
      "Data",
      {{"data", "A data set (docs/datasets.md), or \"synthetic\"", "synthetic"},
       classes_option(),
       {"classes-from", kClassesFromHelp, ""},
       {"background", "Background color for transparent pixels of images: black, white or #rrggbb",
        "black", problem_of_color},
       {"sampler",
        "How to draw samples: random (each once per epoch), balanced (each class equally "
        "often), or a file with one weight per line",
        "random"},
       {"on-bad-sample",
        "What to do with a bad sample: stop, or skip (uses another sample in its place)", "stop",
        one_of({"stop", "skip"})},
       {"decode",
        "How to treat images with damage that a decoder can read past: tolerant (uses "
        "them) or strict (a bad sample)",
        "tolerant", one_of({"tolerant", "strict"})},
       {"disk-cache", "Caches samples from slow storage in a folder: DIR=SIZE", "",
        problem_of_size}});
}

OptionList optimizer_options() {
  return in_group("Optimizer",
                  {{"optimizer", "The optimizer: sgd or adamw", "sgd", one_of({"sgd", "adamw"})},
                   {"lr", "Learning rate", 1e-3, positive()},
                   {"momentum", "Momentum; for sgd only", 0.0},
                   {"nesterov", "Uses Nesterov momentum; for sgd only", false},
                   {"weight-decay",
                    "Weight decay (default: " + number_text(SgdOptions().weight_decay) +
                        " for sgd, " + number_text(AdamWOptions().weight_decay) + " for adamw)",
                    -1.0, no_less_than(0)},
                   {"no-weight-decay-on",
                    "Parameters without weight decay: bias, norm (weights of normalization "
                    "layers), or both with a comma",
                    "", problem_of_kinds}});
}

}  // namespace slipstream
