#include "training/loading_options.h"

#include <algorithm>
#include <utility>

#include "core/number_text.h"
#include "cuda/cuda.h"
#include "loader/loader_bench.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/disk_cache.h"

namespace slipstream {
namespace {

constexpr double kSecondsOfATry = 0.2;

/// Returns the CPUs of the GPU's NUMA node that this process may use.
CpuList cpus_near(const std::string& option, const Context& context) {
  if (context.kind() != DeviceKind::cuda) throw Refused(option + " gpu: the run is on the CPU");
  const auto all = cuda::devices();
  const auto& device = all.at(static_cast<std::size_t>(context.device().index()));
  CpuList near = locate_pci_device(device.pci_address).cpus;
  const CpuList allowed = allowed_cpus();
  std::erase_if(
      near, [&](unsigned cpu) { return !std::binary_search(allowed.begin(), allowed.end(), cpu); });
  if (near.empty())
    throw Refused(option + " gpu: this machine does not report which CPUs are near " +
                  device.pci_address + "; give a list, such as 0-7");
  return near;
}

}  // namespace

CacheOptions parse_cache(const std::string& option, const std::string& text) {
  const auto [step, bytes] = named_size(option, text);
  return {.after = step, .bytes = bytes};
}

std::shared_ptr<const Dataset> with_disk_cache(const std::string& option,
                                               const std::shared_ptr<const Dataset>& dataset,
                                               const std::string& text) {
  const auto [dir, bytes] = named_size(option, text);
  const DiskCacheOptions options{.dir = dir, .max_bytes = bytes};
  if (auto labeled = std::dynamic_pointer_cast<const LabeledDataset>(dataset))
    return disk_cached(std::move(labeled), options);
  return disk_cached(dataset, options);
}

CpuList parse_loader_cpus(const std::string& option, const std::string& text,
                          const Context& context) {
  return text == "gpu" ? cpus_near(option, context) : parse_cpu_list(text);
}

unsigned enough_workers(const std::shared_ptr<const Dataset>& dataset,
                        const std::vector<NamedOp>& transforms, const DataLoaderOptions& options,
                        std::optional<unsigned> prefetch_factor, std::function<bool()> stop) {
  LoaderBenchOptions tries;
  tries.workers = workers_to_try(usable_cores());
  tries.prefetch_factor = prefetch_factor;
  tries.seconds = kSecondsOfATry;
  tries.stop = std::move(stop);
  const auto rates = measure_loader(dataset, transforms, options, tries);
  return rates.empty() ? 1 : fewest_workers(rates);
}

}  // namespace slipstream
