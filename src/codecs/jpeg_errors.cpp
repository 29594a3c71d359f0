#include "codecs/jpeg_errors.h"

namespace slipstream::jpeg {
namespace {

Errors& error_manager(j_common_ptr info) { return *reinterpret_cast<Errors*>(info->err); }

[[noreturn]] void on_error(j_common_ptr info) {
  Errors& errors = error_manager(info);
  info->err->format_message(info, errors.message);
  std::longjmp(errors.jump, 1);
}

void on_message(j_common_ptr info, int level) {
  // Negative levels are warnings; the others are trace messages.
  if (level >= 0) return;
  Errors& errors = error_manager(info);
  if (errors.refuses_warnings) on_error(info);
  if (errors.manager.num_warnings++ == 0) info->err->format_message(info, errors.warning);
}

// Replaces libjpeg's output to stderr: the library prints nothing.
void on_output(j_common_ptr) {}

}  // namespace

void fail(j_common_ptr info, const char* message) {
  Errors& errors = error_manager(info);
  std::snprintf(errors.message, sizeof(errors.message), "%s", message);
  std::longjmp(errors.jump, 1);
}

void set_up(Errors& errors, bool refuses_warnings) {
  errors.warning[0] = 0;
  errors.refuses_warnings = refuses_warnings;
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = on_error;
  errors.manager.emit_message = on_message;
  errors.manager.output_message = on_output;
}

void report_warning(const Errors& errors, std::string* warning) {
  if (warning != nullptr && errors.manager.num_warnings > 0) *warning = errors.warning;
}

}  // namespace slipstream::jpeg
