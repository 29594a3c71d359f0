#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/engine/context.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

// The values of options of loading that the command line and the Python package share. `option` is
// the name of the option, with which messages begin.

/// Parses the value of an option for a cache in memory, "STEP=SIZE". Throws Refused for another
/// form.
CacheOptions parse_cache(const std::string& option, const std::string& text);

/// Returns disk_cached() for the value of an option for a cache on disk, "DIR=SIZE". A labeled data
/// set stays labeled. Throws Refused for another form, and as disk_cached() does.
std::shared_ptr<const Dataset> with_disk_cache(const std::string& option,
                                               const std::shared_ptr<const Dataset>& dataset,
                                               const std::string& text);

/// Parses the CPUs of the loader's threads: a list such as "0-7", or "gpu" for the CPUs near the
/// GPU of `context` that this process may use. Throws Refused for any other text, and for "gpu" if
/// the context is on the CPU or if the machine does not report which CPUs are near.
CpuList parse_loader_cpus(const std::string& option, const std::string& text,
                          const Context& context);

/// Measures the loader briefly with 1, 2, 4, ... workers up to the number of usable cores, and
/// returns the smallest number that reaches 0.97 of the best rate. `prefetch_factor` and `stop` are
/// those of LoaderBenchOptions; if `stop` returned true, the result is that of the measurements so
/// far, at least 1. Throws what measure_loader() throws.
unsigned enough_workers(const std::shared_ptr<const Dataset>& dataset,
                        const std::vector<NamedOp>& transforms, const DataLoaderOptions& options,
                        std::optional<unsigned> prefetch_factor, std::function<bool()> stop);

}  // namespace slipstream
