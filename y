  student  lab  right  explained  locked  receipt                                                 file
  –        –    –      –          –       cannot be read: No such file or directory (os error 2)  x.toml
