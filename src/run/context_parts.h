#pragma once

#include "slipstream/run/context.h"

namespace slipstream {

class Fork;
class LaneThreads;
struct ForkProbe;

/// The host threads of a context's lanes, which survive a run.
LaneThreads& threads_of(Context& context);

/// The streams that work on `home`, a lane of this context or of one of its forks, branches onto:
/// of its priority, made when first needed and kept, so that no other lane's memory comes in
/// between. May be called from several threads.
Fork& fork_of(Context& context, Lane& home);

/// For tests of order: what the forks of a context are run with; nullptr, as it begins, for
/// nothing. Not while they run. The probe must outlive its use.
void set_fork_probe(Context& context, const ForkProbe* probe);
const ForkProbe* fork_probe_of(Context& context);

}  // namespace slipstream
