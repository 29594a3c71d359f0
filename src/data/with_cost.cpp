#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <utility>

#include "data/identity.h"
#include "data/slab_layout.h"
#include "slipstream/datasets.h"
#include "slipstream/sync.h"

namespace slipstream {
namespace {

constexpr std::size_t kStreamWords = (std::size_t{256} << 20) / sizeof(std::uint64_t);
constexpr double kMaxSeconds = 3600;

double thread_cpu_s() {
  ::timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void burn(double seconds) {
  const double end = thread_cpu_s() + seconds;
  while (thread_cpu_s() < end) {
  }
}

/// Memory that threads read in turn, each from where the last one stopped.
class Stream {
 public:
  explicit Stream(bool is_used) : words_(is_used ? kStreamWords : 0, 1) {}

  void read(std::size_t bytes) const {
    std::size_t words = bytes / sizeof(std::uint64_t);
    std::size_t at = next_.fetch_add(words, std::memory_order_relaxed) % kStreamWords;
    std::uint64_t sum = 0;
    while (words > 0) {
      const std::size_t run = std::min(words, kStreamWords - at);
      for (std::size_t i = 0; i < run; ++i) sum += words_[at + i];
      words -= run;
      at = 0;
    }
    sum_.fetch_add(sum, std::memory_order_relaxed);  // so that the reads are not optimised away
  }

 private:
  std::vector<std::uint64_t> words_;
  mutable std::atomic<std::size_t> next_ = 0;
  mutable std::atomic<std::uint64_t> sum_ = 0;
};

bool is_free(const SyntheticCost& cost) {
  return cost.sleep_s == 0 && cost.cpu_s == 0 && cost.memory_bytes == 0;
}

class WithCost final : public Dataset {
 public:
  WithCost(std::shared_ptr<const Dataset> dataset, const SyntheticCosts& costs)
      : dataset_(std::move(dataset)),
        costs_(costs),
        first_(dataset_->fields().front()),
        stream_(costs.read.memory_bytes + costs.decode.memory_bytes > 0) {}

  std::size_t size() const override { return dataset_->size(); }
  std::vector<FieldSpec> fields() const override { return dataset_->fields(); }
  std::string name(std::size_t index) const override { return dataset_->name(index); }
  std::uint64_t identity() const override {
    Identity identity;
    identity.add(dataset_->identity());
    identity.add(is_free(costs_.decode) ? 0 : 1);
    return identity.value();
  }

  void read(std::size_t index, Sample& out) const override {
    dataset_->read(index, out);
    if (!is_free(costs_.decode)) out.fields.front().encoded = true;
    pay(costs_.read);
  }

  void decode(const FieldSpec& spec, const DecodeOptions& options, Field& field,
              HostArray& spare) const override {
    const bool is_first = spec.name == first_.name;
    if (is_first && !is_free(costs_.decode)) {
      pay(costs_.decode);
      field.encoded = !is_decoded(field.array.view());
    }
    if (field.encoded) dataset_->decode(spec, options, field, spare);
  }

 private:
  /// File bytes are u8 of one dimension.
  bool is_decoded(const ConstArray& value) const {
    return value.dtype == first_.dtype && value.shape.rank == first_.shape.rank;
  }

  void pay(const SyntheticCost& cost) const {
    if (!cost.lock) return pay_unlocked(cost);
    const Lock lock(mutex_);
    pay_unlocked(cost);
  }

  void pay_unlocked(const SyntheticCost& cost) const {
    if (cost.sleep_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(cost.sleep_s));
    if (cost.cpu_s > 0) burn(cost.cpu_s);
    if (cost.memory_bytes > 0) stream_.read(cost.memory_bytes);
  }

  std::shared_ptr<const Dataset> dataset_;
  SyntheticCosts costs_;
  FieldSpec first_;
  Stream stream_;
  mutable Mutex mutex_;
};

void check(const char* step, const SyntheticCost& cost, std::vector<std::string>& problems) {
  const auto is_good = [](double seconds) { return seconds >= 0 && seconds <= kMaxSeconds; };
  if (is_good(cost.sleep_s) && is_good(cost.cpu_s)) return;
  problems.push_back(std::string("the cost of ") + step +
                     " is negative or over an hour: give seconds");
}

}  // namespace

std::shared_ptr<const Dataset> with_cost(std::shared_ptr<const Dataset> dataset,
                                         const SyntheticCosts& costs) {
  std::vector<std::string> problems;
  if (dataset == nullptr) problems.emplace_back("the data set to add costs to is null");
  check("read", costs.read, problems);
  check("decode", costs.decode, problems);
  refuse(problems);
  return std::make_shared<WithCost>(std::move(dataset), costs);
}

}  // namespace slipstream
