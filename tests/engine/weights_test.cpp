#include "slipstream/engine/weights.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <fstream>

#include "core/safetensors.h"
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

/// Does the same as Module.half() and Module.double() in Python.
void convert_floats(const SavedNet& net, at::ScalarType type) {
  std::vector<at::Tensor> tensors = net->parameters();
  for (const at::Tensor& buffer : net->buffers()) tensors.push_back(buffer);
  for (at::Tensor& each : tensors)
    if (each.is_floating_point()) each.set_data(each.to(type));
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

TEST_F(Weights, SavedWeightsLoadUnchanged) {
  SavedNet saved = saved_net(1), loaded = saved_net(2);
  save_weights(*saved, path());
  ASSERT_FALSE(are_equal(saved, loaded));
  const LoadedWeights left_out = load_weights(*loaded, path());
  EXPECT_TRUE(are_equal(saved, loaded));
  EXPECT_TRUE(loaded->conv->weight.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(loaded->conv->weight.requires_grad());
  EXPECT_THAT(left_out.missing, IsEmpty());
  EXPECT_THAT(left_out.unexpected, IsEmpty());
  EXPECT_THAT(left_out.other_shape, IsEmpty());
  EXPECT_THAT(left_out.other_dtype, IsEmpty());
  EXPECT_THAT(left_out.converted, IsEmpty());
}

TEST_F(Weights, FileHasNamesAndShapesOfStateDict) {
  save_weights(*saved_net(1), path());
  const SafetensorsFile file(path());
  EXPECT_EQ(file.header().tensors.size(), 9U);
  EXPECT_THAT(file.header().find("conv.weight")->shape, ElementsAre(4, 3, 3, 3));
  EXPECT_EQ(file.header().find("norm.num_batches_tracked")->type, StoredType::int64);
  EXPECT_THAT(file.header().find("norm.num_batches_tracked")->shape, IsEmpty());
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
}

TEST_F(Weights, FloatingPointDtypesAreConvertedOnLoad) {
  SavedNet saved = saved_net(1), loaded = saved_net(2);
  convert_floats(saved, at::kDouble);
  save_weights(*saved, path());
  EXPECT_EQ(SafetensorsFile(path()).header().find("fc.weight")->type, StoredType::float64);
  const LoadedWeights weights = load_weights(*loaded, path());
  EXPECT_EQ(loaded->fc->weight.scalar_type(), at::kFloat);
  EXPECT_TRUE(loaded->fc->weight.equal(saved->fc->weight.to(at::kFloat)));
  EXPECT_THAT(weights.converted, testing::Contains("fc.weight (float32 here, float64 there)"));
  EXPECT_THAT(weights.other_dtype, IsEmpty());
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    convert_floats(saved, type);
    save_weights(*saved, path());
    EXPECT_THAT(load_weights(*loaded, path()).converted, testing::SizeIs(8));
    EXPECT_TRUE(loaded->fc->weight.equal(saved->fc->weight.to(at::kFloat)));
  }
}

TEST_F(Weights, OtherDtypesAreRefusedOrSkippedIfPartial) {
  for (const at::ScalarType type :
       {at::kChar, at::kByte, at::kBool, at::kLong, at::kFloat8_e4m3fn}) {
    SavedNet saved = saved_net(1), loaded = saved_net(2), before = saved_net(2);
    saved->fc->weight.requires_grad_(false).set_data(saved->fc->weight.to(type));
    save_weights(*saved, path());
    const std::string why = thrown_by([&] { load_weights(*loaded, path()); });
    EXPECT_THAT(why, AllOf(StartsWith("Refused: "), HasSubstr("of another dtype"),
                           HasSubstr("fc.weight (float32 here, ")));
    EXPECT_TRUE(are_equal(loaded, before));
    const LoadedWeights partial = load_weights(*loaded, path(), {.partial = true});
    EXPECT_THAT(partial.other_dtype, ElementsAre(StartsWith("fc.weight (float32 here, ")));
    EXPECT_TRUE(loaded->fc->weight.equal(before->fc->weight));
    EXPECT_TRUE(loaded->conv->weight.equal(saved->conv->weight));
  }
  SavedNet saved = saved_net(1), loaded = saved_net(2);
  saved->norm->num_batches_tracked.set_data(at::ones({}, at::kFloat));
  save_weights(*saved, path());
  EXPECT_THAT(thrown_by([&] { load_weights(*loaded, path()); }),
              HasSubstr("norm.num_batches_tracked (int64 here, float32 there)"));
}

TEST_F(Weights, ExpandedBufferLoadsOnlyRepeatedValues) {
  SavedNet saved = saved_net(1), loaded = saved_net(2);
  const at::Tensor rows = at::arange(3, at::kFloat).view({3, 1}).expand({3, 4}).clone();
  saved->register_buffer("scale", at::arange(3, at::kFloat).view({3, 1}).expand({3, 4}));
  loaded->register_buffer("scale", at::zeros({3, 1}).expand({3, 4}));
  save_weights(*saved, path());
  load_weights(*loaded, path());
  EXPECT_TRUE(loaded->named_buffers()["scale"].equal(rows));
  saved->named_buffers()["scale"].set_data(at::arange(12, at::kFloat).view({3, 4}));
  save_weights(*saved, path());
  EXPECT_THAT(
      thrown_by([&] { load_weights(*loaded, path()); }),
      AllOf(StartsWith("Refused: "), HasSubstr("'scale' share memory"), HasSubstr("clone()")));
  EXPECT_TRUE(loaded->named_buffers()["scale"].equal(rows));
}

TEST_F(Weights, UnstorableTensorThrowsBeforeWriting) {
  SavedNet metadata = saved_net(1), complex = saved_net(1), text = saved_net(1);
  metadata->register_parameter("__metadata__", at::ones({2}));
  complex->register_buffer("phase", at::ones({2}, at::kComplexFloat));
  text->register_buffer("a\xff", at::ones({2}));
  EXPECT_THAT(thrown_by([&] { save_weights(*metadata, path()); }),
              AllOf(StartsWith("Error: cannot write"), HasSubstr("'__metadata__'"),
                    HasSubstr("rename it")));
  EXPECT_THAT(thrown_by([&] { save_weights(*complex, path()); }),
              HasSubstr("'phase' is complex64"));
  EXPECT_THAT(thrown_by([&] { save_weights(*text, path()); }), HasSubstr("not UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(Weights, ControlCharactersInTensorNamesAreEscaped) {
  const at::Tensor values = at::ones({2});
  const std::string name = "a\nslipstream: loaded\x1b[2K\tb";
  write_safetensors(path(), {{name,
                              StoredType::float32,
                              {2},
                              {static_cast<const std::byte*>(values.const_data_ptr()), 8}}});
  EXPECT_THAT(thrown_by([&] { load_weights(*saved_net(1), path()); }),
              HasSubstr("not in the model: a\\nslipstream: loaded\\x1b[2K\\tb"));
}

TEST_F(Weights, WeightsOfDifferentModelAreRefusedWithAllDifferences) {
  SavedNet other = saved_net(1, 7);
  save_weights(*other, path());
  SavedNet module = saved_net(2), before = saved_net(2);
  module->register_buffer("scale", at::ones({1}));
  EXPECT_EQ(thrown_by([&] { load_weights(*module, path()); }),
            "Refused: the weights in " + path().string() +
                " belong to another model:\n  not in the file: scale\n  of another shape: "
                "fc.weight (5 x 4 here, 7 x 4 there), fc.bias (5 here, 7 there)");
  EXPECT_TRUE(module->fc->weight.equal(before->fc->weight));
  EXPECT_TRUE(module->conv->weight.equal(before->conv->weight));
  save_weights(*module, path());
  EXPECT_THAT(thrown_by([&] { load_weights(*saved_net(2), path()); }),
              HasSubstr("not in the model: scale"));
}

TEST_F(Weights, PartialLoadSkipsTensorsWithOtherShapes) {
  SavedNet other = saved_net(1, 7), module = saved_net(2), before = saved_net(2);
  save_weights(*other, path());
  const LoadedWeights left_out = load_weights(*module, path(), {.partial = true});
  EXPECT_TRUE(module->conv->weight.equal(other->conv->weight));
  EXPECT_TRUE(module->fc->weight.equal(before->fc->weight));
  EXPECT_THAT(left_out.other_shape,
              ElementsAre(StartsWith("fc.weight ("), StartsWith("fc.bias (")));
}

TEST_F(Weights, TorchSaveFileAndMissingFileAreRefused) {
  SavedNet module = saved_net(1);
  std::ofstream(path("model.pt"), std::ios::binary) << "PK\x03\x04 and more";
  EXPECT_THAT(thrown_by([&] { load_weights(*module, path("model.pt")); }),
              AllOf(StartsWith("Refused: "), HasSubstr("it was written by torch.save()"),
                    HasSubstr("torch.load('" + path("model.pt").string()),
                    HasSubstr(path("model.safetensors").string())));
  EXPECT_THAT(thrown_by([&] { load_weights(*module, path("none")); }),
              AllOf(StartsWith("Refused: cannot read"), HasSubstr("No such file")));
  EXPECT_THAT(thrown_by([&] { save_weights(*module, path("no/w.safetensors")); }),
              StartsWith("Error: cannot write"));
}

}  // namespace
}  // namespace slipstream
