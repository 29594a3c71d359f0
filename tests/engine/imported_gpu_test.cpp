#include <ATen/ops/linspace.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include "gpu.h"
#include "slipstream/engine/stage.h"
#include "support/temporary_folder.h"

namespace slipstream {
namespace {

class ImportedModuleGpuTest : public test::GpuTest {};

TEST_F(ImportedModuleGpuTest, RepeatedCallsAreBitIdentical) {
  const TemporaryFolder folder;
  torch::jit::Module module("m");
  module.register_parameter("weight", at::linspace(0.1, 3, 4096), false);
  module.define(R"(
def forward(self, x):
    y = x * self.weight + 0.3
    return (y * y + x).sigmoid() * y + torch.tanh(x * 1.7)
)");
  const std::string file = (folder.path() / "module.pt").string();
  module.save(file);
  const FrozenStage stage = frozen_torchscript(file, {"x"}, {"y"});
  stage.module->to(c10::Device("cuda:0"));
  EXPECT_TRUE(stage.module->parameters().front().is_cuda());
  std::vector<at::Tensor> made;
  for (int call = 0; call < 5; ++call) {
    Batch batch;
    batch.set("x", at::linspace(-2, 2, 4096).to(at::kCUDA));
    stage.run(batch);
    made.push_back(batch.at("y"));
  }
  for (const at::Tensor& each : made) EXPECT_TRUE(each.equal(made.front()));
}

}  // namespace
}  // namespace slipstream
