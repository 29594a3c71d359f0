#include "data/host_cache.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <thread>

namespace slipstream {
namespace {

using Fill = std::function<void(std::size_t item, SampleBuffers& buffers, StepMeter& meter)>;

struct Failure {
  std::size_t item = 0;
  std::exception_ptr error;
};

Failure fill_every_nth(std::size_t first, std::size_t stride, std::size_t items,
                       const SampleSteps& steps, const Fill& fill) {
  std::size_t item = first;
  try {
    SampleBuffers buffers(steps.stored().size());
    StepMeter unread(steps.names().size());
    for (; item < items; item += stride) fill(item, buffers, unread);
  } catch (...) {
    return {item, std::current_exception()};
  }
  return {};
}

void fill_all(std::size_t items, unsigned threads, const SampleSteps& steps, const Fill& fill) {
  std::vector<Failure> failures(std::min<std::size_t>(threads, items));
  {
    std::vector<std::jthread> fillers;
    fillers.reserve(failures.size());
    for (std::size_t i = 0; i < failures.size(); ++i) {
      fillers.emplace_back(
          [&, i] { failures[i] = fill_every_nth(i, failures.size(), items, steps, fill); });
    }
  }
  std::erase_if(failures, [](const Failure& failure) { return failure.error == nullptr; });
  if (failures.empty()) return;
  std::rethrow_exception(
      std::min_element(failures.begin(), failures.end(), [](const Failure& a, const Failure& b) {
        return a.item < b.item;
      })->error);
}

}  // namespace

std::vector<CachedSample> cache_samples(const SampleSteps& steps, BadSamples& bad,
                                        std::size_t items, std::size_t end, unsigned threads) {
  std::vector<CachedSample> cached(items);
  const std::size_t batch_size = steps.layout().batch_size;
  fill_all(items, threads, steps, [&](std::size_t item, SampleBuffers& buffers, StepMeter& meter) {
    std::vector<std::byte> trial(bad.skips() ? steps.layout().bytes : 0);
    bad.make_good(item / batch_size, item % batch_size, [&](const SamplePlace& place) {
      steps.run(0, end, place, buffers, meter);
      copy_sample(buffers.sample, cached[item].sample);
      cached[item].id = place.sample;
      cached[item].occurrence = place.occurrence;
      if (!bad.skips()) return;
      steps.run(end, steps.collate_step(), place, buffers, meter);
      steps.collate(place, buffers.sample, trial.data(), meter);
    });
  });
  return cached;
}

void fill_slabs(const SampleSteps& steps, BadSamples& bad, const SlabMemory& slabs,
                unsigned threads) {
  const std::size_t batch_size = steps.layout().batch_size;
  fill_all(slabs.size() * batch_size, threads, steps,
           [&](std::size_t item, SampleBuffers& buffers, StepMeter& meter) {
             bad.make_good(item / batch_size, item % batch_size, [&](const SamplePlace& place) {
               steps.run(0, steps.collate_step(), place, buffers, meter);
               steps.collate(place, buffers.sample, slabs[item / batch_size], meter);
             });
           });
}

}  // namespace slipstream
