#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include "core/seconds_since.h"
#include "core/start_thread.h"
#include "doctor/pipeline_model.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;

// Many short windows, of which the best counts, because other programs disturb some of them.
constexpr double kWindowS = 0.01;
constexpr int kRounds = 8;
constexpr int kCopies = 2;
/// Size of the memory that is read: 128 MiB, larger than the caches of most CPUs.
constexpr std::size_t kWords = (std::size_t{128} << 20) / sizeof(std::uint64_t);

/// Pieces of work per second of `threads` threads that run at the same time.
template <typename Piece>
double pieces_per_second(unsigned threads, const Piece& piece) {
  std::atomic<std::uint64_t> pieces = 0;
  std::latch ready(threads);
  const auto work = [&](unsigned thread) {
    ready.arrive_and_wait();
    const auto start = Clock::now();
    std::uint64_t done = 0;
    for (; seconds_since(start) < kWindowS; ++done) piece(thread, done);
    pieces += done;
  };
  std::vector<std::jthread> all;
  try {
    for (unsigned thread = 0; thread < threads; ++thread)
      all.push_back(start_thread([&work, thread] { work(thread); }));
  } catch (...) {
    // Threads that were started wait at the latch for the missing ones, and would never end.
    ready.count_down(threads - static_cast<std::ptrdiff_t>(all.size()));
    throw;
  }
  all.clear();
  return static_cast<double>(pieces) / kWindowS;
}

template <typename Piece>
double measure_speedup(unsigned threads, const Piece& piece) {
  // Both rates are measured in each round, so that a change of the clock rate affects both.
  double one = 0, all = 0;
  for (int round = 0; round < kRounds; ++round) {
    one = std::max(one, pieces_per_second(1, piece));
    all = std::max(all, pieces_per_second(threads, piece));
  }
  return one > 0 ? std::clamp(all / one, 1.0, static_cast<double>(threads)) : 1;
}

double copy_rate() {
  const std::vector<std::uint64_t> from(kWords / 2, 1);
  std::vector<std::uint64_t> to(from.size());
  double best = 0;
  for (int round = 0; round < kCopies; ++round) {
    const auto start = Clock::now();
    std::copy(from.begin(), from.end(), to.begin());
    const double passed = seconds_since(start);
    if (passed > 0) best = std::max(best, static_cast<double>(from.size() * 8) / passed);
  }
  return best;
}

}  // namespace

MachineCapacity measure_capacity(unsigned threads) {
  MachineCapacity capacity;
  capacity.copy_bytes_per_second = copy_rate();
  if (threads <= 1) return capacity;
  std::atomic<std::uint64_t> kept = 0;  // uses the results, so the compiler keeps the work
  capacity.cores = measure_speedup(threads, [&](unsigned thread, std::uint64_t turn) {
    std::uint64_t x = thread + turn;
    for (int i = 0; i < 20000; ++i) x = x * 6364136223846793005U + 1442695040888963407U;
    kept.fetch_add(x & 1U, std::memory_order_relaxed);
  });
  const std::vector<std::uint64_t> words(kWords, 1);
  capacity.memory_streams = measure_speedup(threads, [&](unsigned thread, std::uint64_t turn) {
    constexpr std::size_t kPiece = std::size_t{1} << 15;
    const std::size_t first = (thread * (kWords / threads) + turn * kPiece) % (kWords - kPiece);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kPiece; ++i) sum += words[first + i];
    kept.fetch_add(sum & 1U, std::memory_order_relaxed);
  });
  return capacity;
}

}  // namespace slipstream
