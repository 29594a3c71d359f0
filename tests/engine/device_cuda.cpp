namespace slipstream::test {

extern const char* const kDevice;
const char* const kDevice = "cuda";

}  // namespace slipstream::test
