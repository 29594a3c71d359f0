/* Takes the place of JBIG-KIT in wheels: libtiff of Debian and Ubuntu links that library, which is under the GPL.
   A TIFF file with JBIG compression then raises an error. Slipstream encodes no TIFF files. */
#include <stddef.h>

enum { NOT_INCLUDED = 1 };

void jbg_newlen(unsigned char* file, size_t bytes) { (void)file, (void)bytes; }
void jbg_dec_init(void* decoder) { (void)decoder; }
void jbg_dec_free(void* decoder) { (void)decoder; }
int jbg_dec_in(void* decoder, unsigned char* data, size_t bytes, size_t* used) {
  (void)decoder, (void)data, (void)bytes, (void)used;
  return NOT_INCLUDED;
}
size_t jbg_dec_getsize(const void* decoder) { return (void)decoder, 0; }
unsigned char* jbg_dec_getimage(const void* decoder, int plane) { return (void)decoder, (void)plane, NULL; }
const char* jbg_strerror(int error) { return (void)error, "this build does not include JBIG"; }

void jbg_enc_init(void* encoder) { (void)encoder; }
void jbg_enc_out(void* encoder) { (void)encoder; }
void jbg_enc_free(void* encoder) { (void)encoder; }
