namespace slipstream {

// Defined only in programs that contain cli_main. Other programs keep their own signal handling.
// This file is installed as source code, so it includes nothing.
[[gnu::weak]] void handle_early_signals();

namespace {

void handle_early() {
  if (handle_early_signals != nullptr) handle_early_signals();
}

// PyTorch's libraries need half a second for their initialization before main(). Functions in this
// section are called before that, so that Ctrl-C is handled from the start. Only executables can
// have this section, so this file is not part of the library.
[[gnu::section(".preinit_array"), gnu::used]] void (*const early)() = handle_early;

}  // namespace
}  // namespace slipstream
