#include "slipstream/cli.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(CliMain, ErrorsOfPyTorchAreToldWithoutTheirBacktrace) {
  const Workload broken{
      "broken", [](const Options&) -> Pipeline { TORCH_CHECK(false, "sizes do not match"); }};
  std::vector<std::string> words = {"/bin/own", "train", "broken", "--device", "cpu"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  testing::internal::CaptureStderr();
  const int code = cli_main(static_cast<int>(arguments.size()), arguments.data(), {broken});
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 1);
  EXPECT_THAT(told, testing::StartsWith("own: sizes do not match"));
  EXPECT_THAT(told, Not(HasSubstr("Exception raised from")));
}

}  // namespace
}  // namespace slipstream
