#include "bindings/gil.h"

#include <unistd.h>

namespace slipstream {

void wait_for_exit() noexcept {
  for (;;) pause();
}

}  // namespace slipstream
