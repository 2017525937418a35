(func $main (loop $on (br $on)))
(start $main)
