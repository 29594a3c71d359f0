#include "engine/run_failure.h"

#include <c10/util/Exception.h>

#include "core/plain_message.h"
#include "engine/gradients.h"
#include "engine/memory_advice.h"
#include "engine/message.h"

namespace slipstream {

void throw_failure(const BoundPipeline& bound, DeviceSteps& steps, const Plan& plan,
                   const std::string& where, const std::exception_ptr& error) {
  drop_gradients(bound.parameters);
  std::string what;
  bool is_full = false;
  try {
    std::rethrow_exception(error);
  } catch (const DeviceLost& e) {
    throw DeviceLost(where + e.what());
  } catch (const c10::OutOfMemoryError&) {
    is_full = true;
  } catch (const std::exception& e) {
    what = is_out_of_memory(e) ? "out of memory. " + plain_remedy() : describe_error(e);
  } catch (...) {
    what = "an exception that is not a std::exception";
  }
  try {
    bound.synchronize();
  } catch (const DeviceLost& e) {
    // Synchronizing may reveal that the device is lost; the message then has both errors.
    throw DeviceLost(where + what + "\n" + e.what());
  }
  std::throw_with_nested(Error(
      where + (is_full ? "out of device memory. " + memory_advice(bound, steps, plan) : what)));
}

}  // namespace slipstream
