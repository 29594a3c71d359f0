#pragma once

#include <memory_resource>
#include <string>

#include "slipstream/core/lane.h"
#include "slipstream/engine/context.h"

namespace slipstream {

class Fork;
class LaneThreads;
struct ForkProbe;

/// The lane called `name` with this priority; made when first asked for, on its own stream.
Lane& get_lane(Context& context, const std::string& name, int priority);

/// Page-locked on a GPU (kept for the next run), ordinary memory otherwise or if not `pinned`.
std::pmr::memory_resource& get_host_memory(Context& context, bool pinned);

/// The host threads of a context's lanes, which survive a run.
LaneThreads& get_threads(Context& context);

/// The streams that work on `home`, a lane of this context or of one of its forks, branches onto:
/// of its priority, made when first needed and kept, so that no other lane's memory comes in
/// between. May be called from several threads.
Fork& get_fork(Context& context, Lane& home);

/// For tests of order: what the forks of a context are run with; nullptr, as it begins, for
/// nothing. Not while they run. The probe must outlive its use.
void set_fork_probe(Context& context, const ForkProbe* probe);
const ForkProbe* get_fork_probe(Context& context);

}  // namespace slipstream
