#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/modules/linear.h>

#include <fstream>

#include "slipstream/engine/stage.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

/// PyTorch's archive reader leaks some memory when it refuses a file.
extern "C" const char* __lsan_default_suppressions() { return "leak:mz_zip_reader"; }

namespace slipstream {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class ImportedModuleTest : public ::testing::Test {
 protected:
  /// Writes a file with a TorchScript module that consists of `code` and has a parameter `weight`
  /// {1, 2, 3}.
  std::string script(const std::string& code) {
    torch::jit::Module module("m");
    module.register_parameter("weight", at::arange(1, 4, at::kFloat), false);
    module.register_attribute("training", c10::BoolType::get(), true);
    module.define(code + "\n");
    const std::string file = path("module.pt");
    module.save(file);
    return file;
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string write_file(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }

  static Batch make_batch(const at::Tensor& x) {
    Batch batch;
    batch.set("x", x);
    return batch;
  }
  static std::string refusal(const std::string& file, std::vector<std::string> inputs = {"x"}) {
    return thrown_by([&] { frozen_torchscript(file, inputs, {"y"}); });
  }
  static std::string package_refusal(const std::string& file) {
    return thrown_by([&] { frozen_aot_inductor(file, {"x"}, {"y"}); });
  }
  std::string failure(const std::string& code) {
    const FrozenStage stage = frozen_torchscript(script(code), {"x"}, {"y"});
    Batch batch = make_batch(at::ones({2, 3}));
    return thrown_by([&] { stage.run(batch); });
  }

  static std::vector<std::string> problems(const FrozenStage& stage,
                                           std::shared_ptr<torch::nn::Module> module) {
    return find_problems("encoder", stage, *train_step({std::move(module), nullptr, nullptr, {}}));
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ImportedModuleTest, InputsAndOutputsAreMappedInOrder) {
  const std::string file = script(R"(
def forward(self, x, y):
    return x * self.weight, x - y
)");
  const FrozenStage stage = frozen_torchscript(file, {"x", "other"}, {"product", "difference"});
  Batch batch = make_batch(at::ones({2, 3}));
  batch.set("other", at::ones({2, 3}) * 5);
  stage.run(batch);
  EXPECT_TRUE(batch.at("product")[1].equal(at::arange(1, 4, at::kFloat)));
  EXPECT_TRUE(batch.at("difference").equal(at::ones({2, 3}) * -4));
}

TEST_F(ImportedModuleTest, ReturnedListIsMappedToOutputs) {
  const FrozenStage stage =
      frozen_torchscript(script("def forward(self, x): return [x + 1, x + 2]"), {"x"}, {"a", "b"});
  Batch batch = make_batch(at::ones({1}));
  stage.run(batch);
  EXPECT_EQ(batch.at("b").item<float>(), 3);
}

TEST_F(ImportedModuleTest, LaterBatchDoesNotOverwriteEarlierOutput) {
  const FrozenStage stage =
      frozen_torchscript(script("def forward(self, x): return x * self.weight"), {"x"}, {"y"});
  Batch first = make_batch(at::ones({3}));
  Batch second = make_batch(at::ones({3}) * 7);
  stage.run(first);
  stage.run(second);
  EXPECT_TRUE(first.at("y").equal(at::arange(1, 4, at::kFloat)));
}

TEST_F(ImportedModuleTest, ModuleIsFrozenAndInEvalMode) {
  const std::string file = script(R"(
def forward(self, x):
    return x * self.weight if self.training else x
)");
  const FrozenStage stage = frozen_torchscript(file, {"x"}, {"y"});
  Batch batch = make_batch(at::ones({3}));
  stage.run(batch);
  EXPECT_TRUE(batch.at("y").equal(at::ones({3})));
  ASSERT_EQ(stage.module->parameters().size(), 1u);
  EXPECT_FALSE(stage.module->parameters().front().requires_grad());
  const auto head = std::make_shared<torch::nn::LinearImpl>(3, 2);
  EXPECT_THAT(problems(stage, head), IsEmpty());
}

TEST_F(ImportedModuleTest, SharedOrTrainableParametersAreReported) {
  const FrozenStage stage =
      frozen_torchscript(script("def forward(self, x): return x * self.weight"), {"x"}, {"y"});
  const auto head = std::make_shared<torch::nn::LinearImpl>(3, 1);
  head->weight.set_data(stage.module->parameters().front());
  EXPECT_THAT(problems(stage, head), ElementsAre(HasSubstr("shares a parameter or buffer")));
  stage.module->parameters().front().set_requires_grad(true);
  EXPECT_THAT(problems(stage, std::make_shared<torch::nn::LinearImpl>(3, 1)),
              ElementsAre(HasSubstr("parameter 'script.weight' requires gradients")));
}

TEST_F(ImportedModuleTest, MissingOrInvalidFileIsRefused) {
  const std::string missing = path("missing.pt");
  EXPECT_EQ(refusal(missing),
            "Refused: " + missing + ": there is no such file; give the path of the module's file");
  EXPECT_THAT(package_refusal(missing), HasSubstr("there is no such file"));
  const std::string text = write_file("text.pt", "no archive");
  const std::string no_module =
      "Refused: " + text + ": this PyTorch cannot read it as a module of torch.jit.save (";
  EXPECT_THAT(refusal(text), AllOf(StartsWith(no_module), HasSubstr("not a ZIP archive"),
                                   HasSubstr("torch.jit.script(module).save(file)")));
  const std::string no_package = "Refused: " + text + ": not a package of AOTInductor (";
  EXPECT_THAT(package_refusal(text), AllOf(StartsWith(no_package), HasSubstr("not a ZIP archive"),
                                           HasSubstr("docs/own-models.md")));
  EXPECT_THAT(package_refusal(script("def forward(self, x): return x")),
              HasSubstr("not a package of AOTInductor"));
}

TEST_F(ImportedModuleTest, TruncatedModuleFileIsRefused) {
  std::filesystem::resize_file(script("def forward(self, x): return x"), 1000);
  EXPECT_THAT(refusal(path("module.pt")),
              AllOf(HasSubstr(path("module.pt")), HasSubstr("cannot read it as a module")));
}

TEST_F(ImportedModuleTest, ModuleOfNewerPyTorchIsRefused) {
  caffe2::serialize::PyTorchStreamReader reader(script("def forward(self, x): return x"));
  caffe2::serialize::PyTorchStreamWriter writer(path("newer.pt"));
  for (const std::string& name : reader.getAllRecords()) {
    const auto [data, size] = reader.getRecord(name);
    if (name != ".data/serialization_id" && name != "version")
      writer.writeRecord(name, data.get(), size);
  }
  writer.setMinVersion(99);
  writer.writeEndOfFile();
  EXPECT_THAT(refusal(path("newer.pt")),
              AllOf(HasSubstr("version 99"), HasSubstr("or an older one")));
}

TEST_F(ImportedModuleTest, InputAndOutputNamesThatDoNotMatchForwardAreRefused) {
  const std::string file = script("def forward(self, x, y, z: int = 1): return x + y");
  EXPECT_THAT(refusal(file), HasSubstr("its forward() takes 2 or more arguments, but 1 inputs"));
  EXPECT_EQ(refusal(file, {"x", "y"}), "nothing");
  EXPECT_THAT(refusal(file, {}), HasSubstr("no inputs were named"));
  EXPECT_THAT(thrown_by([&] { frozen_torchscript(file, {"x"}, {}); }),
              HasSubstr("no outputs were named"));
  EXPECT_THAT(refusal(script("def encode(self, x): return x")), HasSubstr("has no forward()"));
}

TEST_F(ImportedModuleTest, ForwardErrorNamesFileAndInputs) {
  EXPECT_THAT(failure("def forward(self, x): return x.view([7])"),
              AllOf(StartsWith("Error: " + path("module.pt")),
                    HasSubstr("its forward failed for x float32[2, 3] on cpu"),
                    HasSubstr("shape '[7]' is invalid")));
}

TEST_F(ImportedModuleTest, ForwardOnUnavailableDeviceErrorNamesFile) {
  EXPECT_THAT(failure(R"(
def forward(self, x):
    return x.to(torch.device("mps"))
)"),
              AllOf(StartsWith("Error: " + path("module.pt")), HasSubstr("failed for x float32")));
}

TEST_F(ImportedModuleTest, UnsupportedForwardResultIsAnError) {
  EXPECT_THAT(failure("def forward(self, x): return x, x"),
              AllOf(StartsWith("Error: " + path("module.pt")),
                    HasSubstr("returned 2 tensors, but 1 outputs were named")));
  EXPECT_THAT(failure("def forward(self, x): return x, 3"), HasSubstr("a Tuple[Tensor, int]"));
  EXPECT_THAT(failure("def forward(self, x): return {\"a\": x}"),
              HasSubstr("let forward() return a tensor, or a tuple or list of tensors"));
}

}  // namespace
}  // namespace slipstream
