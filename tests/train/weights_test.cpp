#include "slipstream/train/weights.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <fstream>

#include "checkpoints/safetensors.h"
#include "slipstream/core/error.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

struct SavedNetImpl : torch::nn::Module {
  explicit SavedNetImpl(std::int64_t classes)
      : conv(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(4))),
        fc(register_module("fc", torch::nn::Linear(4, classes))) {}

  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;
  torch::nn::Linear fc;
};
TORCH_MODULE(SavedNet);

SavedNet saved_net(std::uint64_t seed, std::int64_t classes = 5) {
  at::manual_seed(seed);
  SavedNet made(classes);
  const at::NoGradGuard no_gradients;
  made->norm->running_mean.normal_();
  made->norm->num_batches_tracked.fill_(static_cast<std::int64_t>(seed));
  made->conv->weight.set_data(made->conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
  return made;
}

bool are_equal(const SavedNet& a, const SavedNet& b) {
  const auto all = [](const SavedNet& module) {
    std::vector<at::Tensor> tensors = module->parameters();
    for (const at::Tensor& buffer : module->buffers()) tensors.push_back(buffer);
    return tensors;
  };
  const auto of_a = all(a), of_b = all(b);
  for (std::size_t i = 0; i < of_a.size(); ++i)
    if (!of_a[i].equal(of_b[i])) return false;
  return true;
}

class Weights : public testing::Test {
 protected:
  std::filesystem::path path(const std::string& name = "weights.safetensors") const {
    return folder_.path() / name;
  }
  TemporaryFolder folder_;
};

TEST_F(Weights, WhatIsSavedIsLoaded) {
  SavedNet saved = saved_net(1), loaded = saved_net(2);
  save_weights(*saved, path());
  ASSERT_FALSE(are_equal(saved, loaded));
  const LeftOutWeights left_out = load_weights(*loaded, path());
  EXPECT_TRUE(are_equal(saved, loaded));
  EXPECT_TRUE(loaded->conv->weight.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(loaded->conv->weight.requires_grad());
  EXPECT_THAT(left_out.missing, IsEmpty());
  EXPECT_THAT(left_out.unexpected, IsEmpty());
  EXPECT_THAT(left_out.other_shape, IsEmpty());
}

TEST_F(Weights, FilesHaveTheNamesAndShapesOfAStateDict) {
  save_weights(*saved_net(1), path());
  const SafetensorsFile file(path());
  EXPECT_EQ(file.header().tensors.size(), 9U);
  EXPECT_THAT(file.header().find("conv.weight")->shape, ElementsAre(4, 3, 3, 3));
  EXPECT_EQ(file.header().find("norm.num_batches_tracked")->type, StoredType::int64);
  EXPECT_THAT(file.header().find("norm.num_batches_tracked")->shape, IsEmpty());
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
}

TEST_F(Weights, DtypesAreConverted) {
  SavedNet saved = saved_net(1), loaded = saved_net(2);
  saved->to(at::kDouble);
  save_weights(*saved, path());
  EXPECT_EQ(SafetensorsFile(path()).header().find("fc.weight")->type, StoredType::float64);
  load_weights(*loaded, path());
  EXPECT_EQ(loaded->fc->weight.scalar_type(), at::kFloat);
  EXPECT_TRUE(loaded->fc->weight.equal(saved->fc->weight.to(at::kFloat)));
}

TEST_F(Weights, ThoseOfAnotherModelAreRefusedWithAllThatDiffers) {
  SavedNet other = saved_net(1, 7);
  save_weights(*other, path());
  SavedNet module = saved_net(2), before = saved_net(2);
  module->register_buffer("scale", at::ones({1}));
  EXPECT_EQ(thrown_by([&] { load_weights(*module, path()); }),
            "Refused: the weights in " + path().string() +
                " are those of another model:\n  not in the file: scale\n  of another shape: "
                "fc.weight (5 x 4 here, 7 x 4 there), fc.bias (5 here, 7 there)");
  EXPECT_TRUE(module->fc->weight.equal(before->fc->weight));
  EXPECT_TRUE(module->conv->weight.equal(before->conv->weight));
  save_weights(*module, path());
  EXPECT_THAT(thrown_by([&] { load_weights(*saved_net(2), path()); }),
              HasSubstr("not in the model: scale"));
}

TEST_F(Weights, SomeOfThemAreTakenWhereThatIsSaid) {
  SavedNet other = saved_net(1, 7), module = saved_net(2), before = saved_net(2);
  save_weights(*other, path());
  const LeftOutWeights left_out = load_weights(*module, path(), {.partial = true});
  EXPECT_TRUE(module->conv->weight.equal(other->conv->weight));
  EXPECT_TRUE(module->fc->weight.equal(before->fc->weight));
  EXPECT_THAT(left_out.other_shape,
              ElementsAre(StartsWith("fc.weight ("), StartsWith("fc.bias (")));
}

TEST_F(Weights, OtherFilesAreRefusedWithWhatHelps) {
  SavedNet module = saved_net(1);
  std::ofstream(path("model.pt"), std::ios::binary) << "PK\x03\x04 and more";
  EXPECT_THAT(thrown_by([&] { load_weights(*module, path("model.pt")); }),
              AllOf(StartsWith("Refused: "), HasSubstr("torch.save() wrote it"),
                    HasSubstr("torch.load('" + path("model.pt").string()),
                    HasSubstr(path("model.safetensors").string())));
  EXPECT_THAT(thrown_by([&] { load_weights(*module, path("none")); }),
              AllOf(StartsWith("Refused: cannot read"), HasSubstr("No such file")));
  EXPECT_THAT(thrown_by([&] { save_weights(*module, path("no/w.safetensors")); }),
              StartsWith("Error: cannot write"));
}

}  // namespace
}  // namespace slipstream
