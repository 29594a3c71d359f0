#include "core/start_thread.h"

#include "slipstream/core/error.h"

namespace slipstream {

void fail_to_start_a_thread(const std::system_error& why) {
  throw Error("cannot start a thread: " + why.code().message() +
              "; use fewer workers (num_workers), or raise the limits of this process (ulimit -u, "
              "ulimit -v)");
}

}  // namespace slipstream
