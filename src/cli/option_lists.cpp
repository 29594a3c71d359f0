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
  return {"classes", "Number of classes, where the data do not say it", 10, {}, "Data"};
}

Option image_size_option(const std::string& help) {
  return {"image-size", help, 256, no_less_than(1), "Images"};
}

Option transforms_option() {
  return {"transforms",
          "A file of transforms, or their JSON, instead of a resize. The size of images is theirs "
          "unless "
          "--image-size is given",
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
       {"background", "Color behind transparent pixels of images: black, white or #rrggbb", "black",
        problem_of_color},
       {"sampler",
        "How often samples come: random (each once an epoch), balanced (each class equally "
        "often), or a file with a weight in each line",
        "random"},
       {"on-bad-sample", "stop, or skip: puts another sample in the place of a bad one", "stop",
        one_of({"stop", "skip"})},
       {"decode",
        "tolerant, or strict: a file with damage that a decoder can read past is a bad sample",
        "tolerant", one_of({"tolerant", "strict"})},
       {"disk-cache", "Keeps samples of slow storage in a folder: DIR=SIZE", "", problem_of_size}});
}

OptionList optimizer_options() {
  return in_group("Optimizer",
                  {{"optimizer", "The optimizer: sgd or adamw", "sgd", one_of({"sgd", "adamw"})},
                   {"lr", "Learning rate", 1e-3, positive()},
                   {"momentum", "Momentum, of sgd alone", 0.0},
                   {"nesterov", "Nesterov momentum, of sgd alone", false},
                   {"weight-decay",
                    "Weight decay (default: " + number_text(SgdOptions().weight_decay) +
                        " of sgd, " + number_text(AdamWOptions().weight_decay) + " of adamw)",
                    -1.0, no_less_than(0)},
                   {"no-weight-decay-on",
                    "Parameters that do not decay: bias, norm (weights of normalizations), or both "
                    "with a comma",
                    "", problem_of_kinds}});
}

}  // namespace slipstream
