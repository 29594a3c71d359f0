#include <csignal>

int main() { return std::signal(SIGINT, SIG_DFL) == SIG_DFL ? 0 : 1; }
