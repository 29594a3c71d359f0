#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "datasets/csv.h"
#include "slipstream/core/error.h"

/// Text is refused, or its rows have no more bytes than it has, at lines that only grow.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipstream;
  CsvReader reader(std::string_view(reinterpret_cast<const char*>(data), size));
  std::vector<std::string> fields;
  std::size_t bytes = 0;
  std::size_t line = 0;
  try {
    while (reader.next(fields)) {
      if (fields.empty() || reader.line() <= line) std::abort();
      line = reader.line();
      for (const std::string& field : fields) bytes += field.size();
    }
  } catch (const Error&) {
    return 0;
  }
  if (bytes > size) std::abort();
  return 0;
}
