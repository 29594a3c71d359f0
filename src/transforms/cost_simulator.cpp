#include "transforms/cost_simulator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "core/number_text.h"
#include "core/process_times.h"
#include "core/seconds_since.h"
#include "transforms/synthetic_cost.h"

namespace slipstream {
namespace {

constexpr std::size_t kStreamWords = (std::size_t{256} << 20) / sizeof(std::uint64_t);
constexpr double kMaxSeconds = 3600;
constexpr double kMaxCv = 10;

void burn(double seconds) {
  const double end = thread_cpu_s() + seconds;
  while (thread_cpu_s() < end) {
  }
}

/// Returns a sample of the standard normal distribution (Box and Muller, "A note on the generation
/// of random normal deviates", 1958).
double normal(RandomStream& random) {
  constexpr double kTwoPi = 6.283185307179586;
  const double above_0 = 1 - static_cast<double>(random.uniform());
  const double angle = kTwoPi * static_cast<double>(random.uniform());
  return std::sqrt(-2 * std::log(above_0)) * std::cos(angle);
}

}  // namespace

void check_cost(const std::string& what, const SyntheticCost& cost,
                std::vector<std::string>& problems) {
  const auto is_good = [](double seconds) { return seconds >= 0 && seconds <= kMaxSeconds; };
  if (!is_good(cost.sleep_s) || !is_good(cost.cpu_s))
    problems.push_back("the cost of " + what + " is negative or over an hour: give seconds");
  if (!(cost.cv >= 0 && cost.cv <= kMaxCv))
    problems.push_back("the cost of " + what + " varies by " + number_text(cost.cv) +
                       " times its mean; give 0 to 10");
  if (cost.burst == 0)
    problems.push_back("the cost of " + what + " comes in bursts of 0: give at least 1");
}

double cost_factor(const SyntheticCost& cost, std::uint64_t number) {
  if (cost.variation == CostVariation::none) return 1;
  const double spread = 1 + cost.cv * cost.cv;
  const bool bursts = cost.variation == CostVariation::bursts;
  RandomKey key;
  key.seed = cost.seed;
  key.sample = bursts ? number / cost.burst : number;
  RandomStream random(key);
  if (bursts) return static_cast<double>(random.uniform()) * spread < 1 ? spread : 0;
  const double variance = std::log(spread);
  return std::exp(std::sqrt(variance) * normal(random) - variance / 2);
}

/// A buffer that threads read one after another, each from where the last one stopped. It is larger
/// than the caches, so that reading it causes memory traffic.
class CostSimulator::Stream {
 public:
  Stream() : words_(kStreamWords, 1) {}

  void read(std::size_t bytes) const {
    std::size_t words = bytes / sizeof(std::uint64_t);
    // Relaxed order is enough: it only matters that threads read different parts, and the words
    // never change.
    std::size_t at = next_.fetch_add(words, std::memory_order_relaxed) % kStreamWords;
    std::uint64_t sum = 0;
    while (words > 0) {
      const std::size_t run = std::min(words, kStreamWords - at);
      for (std::size_t i = 0; i < run; ++i) sum += words_[at + i];
      words -= run;
      at = 0;
    }
    sum_.fetch_add(sum, std::memory_order_relaxed);  // so that the reads are not optimized away
  }

 private:
  std::vector<std::uint64_t> words_;
  mutable std::atomic<std::size_t> next_ = 0;
  mutable std::atomic<std::uint64_t> sum_ = 0;
};

namespace {

/// Sleeps for `seconds` on average. The system always wakes a thread late, so the excess of one
/// sleep of an account is subtracted from its next.
void sleep_on_average(double seconds, std::uint64_t account) {
  thread_local std::map<std::uint64_t, double> overslept;
  double& overslept_s = overslept[account];
  const double wanted_s = seconds - overslept_s;
  const auto start = std::chrono::steady_clock::now();
  if (wanted_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(wanted_s));
  overslept_s = seconds_since(start) - wanted_s;
}

}  // namespace

CostSimulator::CostSimulator(const std::vector<SyntheticCost>& costs) : accounts_(costs.size()) {
  static std::atomic<std::uint64_t> next = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    accounts_[i].cost = costs[i];
    // Relaxed order is enough for a unique number.
    accounts_[i].number = next.fetch_add(1, std::memory_order_relaxed);
  }
  const auto streams = [](const SyntheticCost& cost) { return cost.memory_bytes > 0; };
  if (std::any_of(costs.begin(), costs.end(), streams)) stream_ = std::make_unique<Stream>();
}

CostSimulator::~CostSimulator() = default;

void CostSimulator::simulate(std::size_t step) const {
  const Account& account = accounts_[step];
  if (account.cost.is_free()) return;
  const double factor =
      cost_factor(account.cost, account.payments.fetch_add(1, std::memory_order_relaxed));
  if (!account.cost.lock) return simulate_unlocked(account, factor);
  const Lock lock(mutex_);
  simulate_unlocked(account, factor);
}

void CostSimulator::simulate_unlocked(const Account& account, double factor) const {
  const SyntheticCost& cost = account.cost;
  if (cost.sleep_s * factor > 0) sleep_on_average(cost.sleep_s * factor, account.number);
  if (cost.cpu_s * factor > 0) burn(cost.cpu_s * factor);
  const double bytes = static_cast<double>(cost.memory_bytes) * factor;
  if (bytes > 0) stream_->read(static_cast<std::size_t>(bytes));
}

}  // namespace slipstream
