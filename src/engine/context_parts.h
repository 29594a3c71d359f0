#pragma once

#include <memory_resource>
#include <string>

#include "slipstream/core/lane.h"
#include "slipstream/engine/context.h"

namespace slipstream {

class Fork;
class LaneThreads;
struct ForkProbe;

/// Returns the lane with this name and priority. It is created, with a separate stream, when it is
/// first requested. May be called from several threads.
Lane& get_lane(Context& context, const std::string& name, int priority);

/// Returns the memory resource for host slabs: page-locked if the device is a GPU and `pinned`,
/// otherwise ordinary memory. Freed blocks are kept for the next run, because locking pages is
/// slow.
std::pmr::memory_resource& get_host_memory(Context& context, bool pinned);

/// Returns the host threads of a context's lanes. They are kept between runs.
LaneThreads& get_threads(Context& context);

/// Returns the streams to which work on `home`, a lane of this context or of one of its forks, can
/// branch. They have the priority of `home`, are created when first needed and are kept. They are
/// used for nothing else, so the allocator's memory for them is not mixed with memory of other
/// lanes. May be called from several threads.
Fork& get_fork(Context& context, Lane& home);

/// For tests of ordering: sets the probe that the forks of a context run with; nullptr, the initial
/// value, disables it. Must not be called while forks run. The probe must outlive its use.
void set_fork_probe(Context& context, const ForkProbe* probe);
const ForkProbe* get_fork_probe(Context& context);

}  // namespace slipstream
