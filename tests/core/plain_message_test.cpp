#include "core/plain_message.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <new>
#include <stdexcept>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

TEST(PlainMessage, OutOfMemoryErrorsGiveAdvice) {
  const auto is_memory_advice = testing::StartsWith("out of memory; use a smaller ");
  EXPECT_THAT(plain_message(std::bad_alloc()), is_memory_advice);
  EXPECT_THAT(plain_message(std::bad_array_new_length()), is_memory_advice);
  const char* const torch_message =
      "[enforce fail] DefaultCPUAllocator: can't allocate memory: you ...";
  EXPECT_THAT(plain_message(std::runtime_error(torch_message)), is_memory_advice);
}

TEST(PlainMessage, OtherErrorsKeepTheirText) {
  EXPECT_EQ(plain_message(std::runtime_error("sizes do not match")), "sizes do not match");
  EXPECT_FALSE(is_out_of_memory(Error("'can't allocate memory.jpg' is damaged")));
}

TEST(PlainMessage, ErrnoMessageDescribesTheError) {
  EXPECT_EQ(errno_message(ENOENT), "No such file or directory");
}

TEST(PlainMessage, JsonProblemOmitsLibraryErrorCode) {
  EXPECT_EQ(json_problem(std::runtime_error("[json.exception.out_of_range.403] key 'a' not found")),
            "key 'a' not found");
  EXPECT_EQ(json_problem(std::runtime_error("[a] b")), "[a] b");
}

}  // namespace
}  // namespace slipstream
