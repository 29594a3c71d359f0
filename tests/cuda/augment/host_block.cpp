#include "cuda/augment/host_block.h"

#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

namespace slipstream::augment {
/// Dynamic shared memory, with the same declaration as in device code.
extern thread_local std::byte shared[std::size_t{1} << 18];
alignas(16) thread_local std::byte shared[std::size_t{1} << 18];
}  // namespace slipstream::augment

namespace slipstream::test {
namespace {

constexpr unsigned kWarp = 32;
constexpr std::byte kUnset{0xff};  // floats of these bytes are NaN
constexpr std::size_t kStackBytes = std::size_t{1} << 18;

enum class Waits { no, for_warp, for_block, ended };

struct Fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(kStackBytes);
  Waits waits = Waits::ended;
};

struct Block {
  std::vector<Fiber> fibers;
  ucontext_t scheduler;
  unsigned current = 0;
  const std::function<void()>* thread = nullptr;
  bool runs_backwards = false;
  std::vector<std::int64_t> slots;
};

Block block;

void enter() {
  (*block.thread)();
  block.fibers[block.current].waits = Waits::ended;
  swapcontext(&block.fibers[block.current].context, &block.scheduler);
}

void wait(Waits waits) {
  Fiber& fiber = block.fibers[block.current];
  fiber.waits = waits;
  swapcontext(&fiber.context, &block.scheduler);
}

void resume(unsigned thread) {
  block.current = thread;
  threadIdx = {thread, 0, 0};
  block.fibers[thread].waits = Waits::no;
  swapcontext(&block.scheduler, &block.fibers[thread].context);
}

/// Every second block runs its threads in reverse order, so that a thread that omits a required
/// wait reads wrong values.
unsigned order_index(unsigned i, unsigned count) {
  return block.runs_backwards ? count - 1 - i : i;
}

/// Runs the threads of a warp until they wait for the block or have ended.
void run_warp(unsigned first) {
  for (;;) {
    unsigned in_warp = 0;
    unsigned elsewhere = 0;
    for (unsigned i = first; i < first + kWarp; ++i) {
      (block.fibers[i].waits == Waits::for_warp ? in_warp : elsewhere) += 1;
    }
    if (in_warp == 0) return;
    if (elsewhere != 0) throw std::logic_error("threads of a warp wait in different places");
    for (unsigned i = 0; i < kWarp; ++i) resume(first + order_index(i, kWarp));
  }
}

void start(unsigned threads, const std::function<void()>& thread) {
  block.fibers.resize(threads);
  block.slots.resize(threads);
  block.thread = &thread;
  block.runs_backwards = !block.runs_backwards;
  blockDim = dim3(threads);
  std::fill(std::begin(augment::shared), std::end(augment::shared), kUnset);
  for (Fiber& fiber : block.fibers) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enter, 0);
    fiber.waits = Waits::for_block;
  }
}

}  // namespace

void run_block(unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread) {
  start(threads, thread);
  for (bool resumes = true; resumes;) {
    resumes = false;
    for (unsigned i = 0; i < threads; ++i) {
      const unsigned at = order_index(i, threads);
      if (block.fibers[at].waits == Waits::for_block) resume(at);
    }
    for (unsigned i = 0; i < threads / kWarp; ++i)
      run_warp(kWarp * order_index(i, threads / kWarp));
    for (const Fiber& fiber : block.fibers) resumes |= fiber.waits == Waits::for_block;
  }
  const auto is_unset = [](std::byte value) { return value == kUnset; };
  if (!std::all_of(augment::shared + shared_bytes, std::end(augment::shared), is_unset)) {
    throw std::logic_error("written beyond the end of a block's shared memory");
  }
}

void wait_for_block() { wait(Waits::for_block); }

void wait_for_warp() { wait(Waits::for_warp); }

std::int64_t value_of_lane(std::int64_t mine, unsigned lane) {
  const unsigned thread = block.current;
  block.slots[thread] = mine;
  wait_for_warp();
  const std::int64_t value = block.slots[thread / kWarp * kWarp + lane];
  wait_for_warp();
  return value;
}

}  // namespace slipstream::test
