# cpack runs this on the staged files, to change what `cmake --install` does
# differently from Debian's policy.
find_program(gzip gzip REQUIRED)
file(GLOB_RECURSE pages ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/*.[18]
     ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/doc/*/changelog)
foreach(page ${pages})
  # -n: no timestamp, so that builds are reproducible.
  execute_process(COMMAND ${gzip} -9n ${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
