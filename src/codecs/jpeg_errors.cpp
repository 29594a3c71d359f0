#include "codecs/jpeg_errors.h"

#include <jerror.h>  // after jpeglib.h, which says which messages there are

namespace slipstream::jpeg {
namespace {

Errors& errors_of(j_common_ptr info) { return *reinterpret_cast<Errors*>(info->err); }

[[noreturn]] void on_error(j_common_ptr info) {
  Errors& errors = errors_of(info);
  info->err->format_message(info, errors.message);
  std::longjmp(errors.jump, 1);
}

bool means_damage(int code) {
  switch (code) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
      return true;
    default:
      return false;
  }
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && means_damage(info->err->msg_code)) on_error(info);
}

void on_output(j_common_ptr) {}

}  // namespace

void fail(j_common_ptr info, const char* message) {
  Errors& errors = errors_of(info);
  std::snprintf(errors.message, sizeof(errors.message), "%s", message);
  std::longjmp(errors.jump, 1);
}

void set_up(Errors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = on_error;
  errors.manager.emit_message = on_message;
  errors.manager.output_message = on_output;
}

}  // namespace slipstream::jpeg
