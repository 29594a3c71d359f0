#include "core/plain_message.h"

#include <new>
#include <string_view>
#include <system_error>

#include "slipstream/core/error.h"

namespace slipstream {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (dynamic_cast<const Error*>(&error) != nullptr) return false;
  // PyTorch has no exception type for host memory, so its message is the only way to recognize the
  // error.
  return std::string_view(error.what()).find("can't allocate memory") != std::string_view::npos;
}

std::string errno_message(int error) { return std::generic_category().message(error); }

std::string plain_message(const std::exception& error) {
  if (!is_out_of_memory(error)) return error.what();
  return "out of memory; use a smaller batch size or image size, fewer workers, or a smaller cache";
}

std::string json_problem(const std::exception& error) {
  const std::string_view what = error.what();
  const std::size_t end = what.starts_with("[json.exception") ? what.find("] ") : what.npos;
  return std::string(end == what.npos ? what : what.substr(end + 2));
}

}  // namespace slipstream
