// The `heddle` command. All of it is in compiler/driver.
#include "compiler/driver/driver.h"

int main(int argc, char **argv) { return heddle::run_driver(argc, argv); }
