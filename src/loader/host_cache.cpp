#include "loader/host_cache.h"

#include <functional>
#include <memory>

#include "core/parallel_for.h"

namespace slipstream {
namespace {

using Fill = std::function<void(std::size_t item, SampleBuffers& buffers, StepMeter& meter)>;

struct Filler {
  explicit Filler(const SampleSteps& steps)
      : buffers(steps.stored().size()), unread(steps.names().size()) {}
  SampleBuffers buffers;
  StepMeter unread;
};

void fill_all(std::size_t items, unsigned threads, const SampleSteps& steps, const Fill& fill) {
  parallel_for(items, threads, [&]() -> ItemWork {
    // Held by a shared_ptr, because a std::function must be copyable and a StepMeter is not.
    return [&fill, filler = std::make_shared<Filler>(steps)](std::size_t item) {
      fill(item, filler->buffers, filler->unread);
      return true;
    };
  });
}

}  // namespace

std::vector<CachedSample> cache_samples(const SampleSteps& steps, BadSamples& bad,
                                        std::size_t items, std::size_t end, unsigned threads) {
  std::vector<CachedSample> cached(items);
  const std::size_t batch_size = steps.layout().batch_size;
  fill_all(items, threads, steps, [&](std::size_t item, SampleBuffers& buffers, StepMeter& meter) {
    // The later steps write to a temporary slab: they are run only to find out whether the sample
    // is bad.
    std::vector<std::byte> trial(bad.skips() ? steps.layout().bytes : 0);
    bad.make_good(item / batch_size, item % batch_size, [&](const SamplePosition& place) {
      steps.run(0, end, place, buffers, meter, true);
      copy_sample(buffers.sample, cached[item].sample);
      cached[item].id = place.sample;
      cached[item].occurrence = place.occurrence;
      if (!bad.skips()) return;
      steps.run(end, steps.collate_step(), place, buffers, meter);
      steps.collate(place, buffers, trial.data(), meter);
    });
  });
  return cached;
}

void fill_slabs(const SampleSteps& steps, BadSamples& bad, const SlabMemory& slabs,
                unsigned threads) {
  const std::size_t batch_size = steps.layout().batch_size;
  fill_all(slabs.size() * batch_size, threads, steps,
           [&](std::size_t item, SampleBuffers& buffers, StepMeter& meter) {
             bad.make_good(item / batch_size, item % batch_size, [&](const SamplePosition& place) {
               steps.run(0, steps.collate_step(), place, buffers, meter);
               steps.collate(place, buffers, slabs[item / batch_size], meter);
             });
           });
}

}  // namespace slipstream
