namespace slipstream {

// There where cli_main is; a program that has no command line keeps its own way with signals. This
// file is installed as it is, so it includes nothing.
[[gnu::weak]] void handle_early_signals();

namespace {

void handle_early() {
  if (handle_early_signals != nullptr) handle_early_signals();
}

// PyTorch's libraries take half a second before main to set themselves up. What stands in this
// section is called ahead of them; only a program has one, so this is not a part of the library.
[[gnu::section(".preinit_array"), gnu::used]] void (*const early)() = handle_early;

}  // namespace
}  // namespace slipstream
